/* No password in a message, a status or an event, whatever the URL looks like. The argument is the
 * file of URLs that every language reads. */
#include "check.h"

#include <jansson.h>
#include <pthread.h>

struct told {
    pthread_mutex_t mutex;
    char text[4096];
};

static void add(struct told *told, const char *text) {
    pthread_mutex_lock(&told->mutex);
    size_t used = strlen(told->text);
    CHECK(strlen(text) < sizeof told->text - used);
    snprintf(told->text + used, sizeof told->text - used, "%s\n", text);
    pthread_mutex_unlock(&told->mutex);
}

static void note(const sg_event *event, void *user_data) {
    add((struct told *)user_data, event->message);
}

/* Waits until the status says what went wrong. */
static void add_status(sg_limiter *limiter, struct told *told) {
    struct timespec pause = {0, 2000000};
    sg_limiter_status status;
    OK(sg_status(limiter, &status));
    for (int tries = 0; *status.last_error == '\0'; tries++) {
        CHECK(tries < 10000);
        nanosleep(&pause, NULL);
        OK(sg_status(limiter, &status));
    }
    add(told, status.last_error);
}

static void tell(const char *url, struct told *told) {
    sg_limiter *limiter = NULL;
    sg_limit *limit;
    sg_options options;
    sg_decision d;
    OK(sg_options_init(&options));
    options.on_outage = SG_ON_OUTAGE_RAISE;
    options.timeout_us = 500000;
    options.deny_cache_us = 0;
    options.on_event = note;
    options.user_data = told;
    if (sg_limiter_open(url, &options, &limiter) != SG_OK) {
        add(told, sg_last_error_message());
        return;
    }
    limit = open_limit(limiter, "secrets", "1/s");
    FAILS(sg_try_acquire(limit, "k", 1, 1, &d), SG_ERR_OUTAGE, "");
    add(told, sg_last_error_message());
    add_status(limiter, told);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

int main(int count, char **arguments) {
    struct told told = {PTHREAD_MUTEX_INITIALIZER, ""};
    const char *redis = getenv("SLUICEGATE_TEST_REDIS");
    json_t *cases, *each;
    size_t number;
    CHECK(count == 2);
    alarm(300);
    cases = json_load_file(arguments[1], 0, NULL);
    CHECK(json_array_size(cases) > 50);
    json_array_foreach(cases, number, each) {
        const char *url = json_string_value(json_object_get(each, "url"));
        const char *secret = json_string_value(json_object_get(each, "secret"));
        *told.text = '\0';
        tell(url, &told);
        if (*told.text == '\0' || strstr(told.text, secret) != NULL) {
            fprintf(stderr, "%s: \"%s\"\n", url, told.text);
            return 1;
        }
    }
    if (redis != NULL && strncmp(redis, "redis://", 8) == 0) {
        char url[256];
        *told.text = '\0';
        snprintf(url, sizeof url, "redis://nobody:hunter2@%s", redis + 8);
        tell(url, &told);
        CHECK(strstr(told.text, "WRONGPASS") != NULL && strstr(told.text, "hunter2") == NULL);
    }
    printf("secrets: %zu passed\n", number);
    json_decref(cases);
    return 0;
}
