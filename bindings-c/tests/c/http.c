/*
 * What a server needs: header fields, problem details, and who the client is behind proxies. The
 * argument is tests/addresses.json.
 */
#include "check.h"

#include <jansson.h>

enum { MOST = 128 };

static size_t texts(json_t *list, const char *into[MOST]) {
    size_t index;
    json_t *item;
    CHECK(json_array_size(list) <= MOST);
    json_array_foreach(list, index, item) into[index] = json_string_value(item);
    return json_array_size(list);
}

static int prefix(const json_t *each, const char *name) {
    const json_t *value = json_object_get(each, name);
    return value == NULL ? -1 : (int)json_integer_value(value);
}

static bool holds(json_t *each) {
    const char *trusted[MOST], *values[MOST];
    size_t count = texts(json_object_get(each, "trusted"), trusted), length = 0;
    const char *header = json_string_value(json_object_get(each, "header"));
    const json_t *refused = json_object_get(each, "error_contains");
    sg_client_address *client = NULL;
    sg_result result = sg_client_address_new(trusted, count, header, prefix(each, "ipv4_prefix"),
                                             prefix(each, "ipv6_prefix"), &client);
    /* -1 is not set, so C can't say it. */
    if (refused != NULL && result == SG_OK) {
        sg_client_address_free(client);
        return prefix(each, "ipv4_prefix") == -1 && json_object_get(each, "ipv4_prefix") != NULL;
    }
    if (refused != NULL)
        return result == SG_ERR_CONFIG && strstr(sg_last_error_message(), json_string_value(refused)) != NULL;
    if (result != SG_OK) return false;
    char key[SG_CLIENT_ADDRESS_KEY_SIZE];
    const char *peer = json_string_value(json_object_get(each, "peer"));
    const char *expected = json_string_value(json_object_get(each, "key"));
    count = texts(json_object_get(each, "values"), values);
    OK(sg_client_address_key(client, *peer == '\0' ? NULL : peer, values, count, key, sizeof key, &length));
    bool same = strcmp(key, expected) == 0 && length == strlen(expected);
    OK(sg_client_address_key(client, peer, values, count, key, strlen(expected) + 1, NULL));
    same = same && strcmp(key, expected) == 0;
    sg_client_address_free(client);
    return same;
}

static void addresses(const char *path) {
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error), *each;
    size_t index;
    CHECK(file != NULL);
    json_t *cases = json_object_get(file, "cases");
    CHECK(json_array_size(cases) > 50);
    json_array_foreach(cases, index, each) {
        if (holds(each)) continue;
        fprintf(stderr, "client address: %s\n", json_string_value(json_object_get(each, "name")));
        exit(1);
    }
    json_decref(file);
}

static void buffers(void) {
    const char *trusted[] = {"loopback", NULL}, *values[] = {"203.0.113.7", NULL};
    sg_client_address *client = NULL;
    char key[SG_CLIENT_ADDRESS_KEY_SIZE];
    size_t length = 0;
    FAILS(sg_client_address_new(NULL, 1, NULL, -1, -1, &client), SG_ERR_ARGUMENT, "trusted");
    FAILS(sg_client_address_new(trusted, 2, NULL, -1, -1, &client), SG_ERR_ARGUMENT, "trusted[]");
    FAILS(sg_client_address_new(trusted, 1, NULL, -1, -1, NULL), SG_ERR_ARGUMENT, "client");
    FAILS(sg_client_address_new(trusted, 1, "host", -1, -1, &client), SG_ERR_CONFIG, "forwarded");
    OK(sg_client_address_new(trusted, 1, NULL, -1, -1, &client));
    CHECK(strcmp(sg_client_address_header(client), "x-forwarded-for") == 0);
    CHECK(sg_client_address_header(NULL) == NULL);
    FAILS(sg_client_address_key(NULL, "", values, 1, key, sizeof key, NULL), SG_ERR_ARGUMENT, "client");
    FAILS(sg_client_address_key(client, "", NULL, 1, key, sizeof key, NULL), SG_ERR_ARGUMENT, "values");
    FAILS(sg_client_address_key(client, "", values, 2, key, sizeof key, NULL), SG_ERR_ARGUMENT, "values[]");
    key[0] = 'x';
    FAILS(sg_client_address_key(client, "127.0.0.1", values, 1, key, 11, &length), SG_ERR_ARGUMENT, "12 bytes");
    FAILS(sg_client_address_key(client, "127.0.0.1", values, 1, NULL, 11, &length), SG_ERR_ARGUMENT, "buffer");
    CHECK(key[0] == 'x' && length == 0);
    OK(sg_client_address_key(client, "127.0.0.1", values, 1, NULL, 0, &length));
    CHECK(length == 11);
    OK(sg_client_address_key(client, "127.0.0.1", values, 1, key, 12, NULL));
    CHECK(strcmp(key, "203.0.113.7") == 0);
    OK(sg_client_address_key(client, "127.0.0.1", NULL, 0, key, sizeof key, NULL));
    CHECK(strcmp(key, "127.0.0.1") == 0);
    values[0] = "\xff\xfe";
    OK(sg_client_address_key(client, "127.0.0.1", values, 1, key, sizeof key, NULL));
    CHECK(strcmp(key, "127.0.0.1") == 0);
    sg_client_address_free(client);
    sg_client_address_free(NULL);
}

static void headers(void) {
    sg_manual_clock *clock = NULL;
    OK(sg_manual_clock_new(-1, &clock));
    sg_limiter *limiter = open_limiter("memory://", clock);
    sg_limit *limit = open_limit(limiter, "login", "1/m burst 2; 1000/d"), *other = open_limit(limiter, "site", "9/s");
    sg_decision d, both[2];
    char text[1024];
    size_t length = 0;
    OK(sg_try_acquire(limit, "k", 1, 1, &d));
    OK(sg_http_headers(limit, &d, 0, text, sizeof text, &length));
    CHECK(strcmp(text, "RateLimit-Policy: \"login-1\";q=1;w=60;sg-burst=2, \"login-2\";q=1000;w=86400\r\n"
                       "RateLimit: \"login-1\";r=1;t=60\r\n") == 0);
    CHECK(length == strlen(text));
    OK(sg_try_acquire(limit, "k", 1, 1, &d));
    OK(sg_try_acquire(limit, "k", 1, 1, &d));
    CHECK(!d.allowed && d.rule == 0);
    OK(sg_http_headers(limit, &d, 1, text, sizeof text, &length));
    CHECK(strstr(text, "\r\nRetry-After: 60\r\nX-RateLimit-Limit: 2\r\n") != NULL);
    CHECK(strstr(text, "\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 120\r\n") != NULL);
    OK(sg_http_problem(limit, &d, text, sizeof text, &length));
    json_t *problem = json_loads(text, 0, NULL);
    CHECK(json_integer_value(json_object_get(problem, "status")) == SG_HTTP_STATUS);
    CHECK(strcmp(json_string_value(json_array_get(json_object_get(problem, "violated-policies"), 0)), "login-1") == 0);
    json_decref(problem);
    CHECK(strcmp(SG_HTTP_PROBLEM_CONTENT_TYPE, "application/problem+json") == 0);

    sg_entry entries[2] = {{limit, "k", 1, 1}, {other, "k", 1, 1}};
    OK(sg_try_acquire(limit, "k", 1, 1, &both[0]));
    OK(sg_try_acquire(other, "k", 1, 1, &both[1]));
    OK(sg_http_headers_all(limiter, entries, both, 2, 0, text, sizeof text, &length));
    CHECK(strstr(text, "RateLimit: \"login-1\";r=0;t=60, \"site\";r=8;t=1\r\nRetry-After: 60\r\n") != NULL);
    OK(sg_http_problem_all(limiter, entries, both, 2, text, sizeof text, &length));
    CHECK(strstr(text, "[\"login-1\"]") != NULL);

    FAILS(sg_http_headers(NULL, &d, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "limit");
    FAILS(sg_http_headers(limit, NULL, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decision");
    FAILS(sg_http_headers(limit, &d, 0, text, 3, NULL), SG_ERR_ARGUMENT, "buffer must have");
    FAILS(sg_http_problem(limit, NULL, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decision");
    FAILS(sg_http_headers_all(NULL, entries, both, 2, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "limiter");
    FAILS(sg_http_headers_all(limiter, NULL, both, 2, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "entries");
    FAILS(sg_http_headers_all(limiter, entries, NULL, 2, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decisions");
    FAILS(sg_http_problem_all(limiter, entries, NULL, 2, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decisions");
    d.limit = -1;
    FAILS(sg_http_headers(limit, &d, 0, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decision must be");
    memset(&d, 0xff, sizeof d);
    FAILS(sg_http_problem(limit, &d, text, sizeof text, NULL), SG_ERR_ARGUMENT, "decision must be");
    OK(sg_http_headers_all(limiter, NULL, NULL, 0, 1, text, sizeof text, &length));
    CHECK(length == 0 && text[0] == '\0');
    sg_limit_close(limit);
    sg_limit_close(other);
    sg_limiter_close(limiter);
    sg_manual_clock_free(clock);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    addresses(arguments[1]);
    buffers();
    headers();
    puts("http: 3 passed");
    return 0;
}
