/* Whatever is passed in: a clear error or a right decision, never a crash or a changed limit. */
#include "check.h"

#include <pthread.h>

enum { MEGABYTE = 1 << 20 };

static void nulls(sg_limiter *limiter, sg_limit *limit) {
    const sg_result bad = SG_ERR_ARGUMENT;
    sg_limiter *opened = limiter;
    sg_limit *made = limit;
    sg_decision d;
    sg_permit *permit;
    sg_limiter_status status;
    sg_manual_clock *clock;
    sg_entry entry = {NULL, "k", 1, 1};

    FAILS(sg_options_init((sg_options *)NULL), bad, "options");
    FAILS(sg_limiter_open(NULL, NULL, &opened), bad, "url");
    FAILS(sg_limiter_open("memory://", NULL, NULL), bad, "limiter");
    FAILS(sg_limit_open(NULL, "n", "1/s", &made), bad, "limiter");
    FAILS(sg_limit_open(limiter, NULL, "1/s", &made), bad, "name");
    FAILS(sg_limit_open(limiter, "n", NULL, &made), bad, "spec");
    FAILS(sg_limit_open(limiter, "n", "1/s", NULL), bad, "limit");
    FAILS(sg_limit_open_on_outage(limiter, "n", "1/s", SG_ON_OUTAGE_DENY, NULL), bad, "limit");
    CHECK(opened == limiter && made == limit);

    FAILS(sg_try_acquire(NULL, "k", 1, 1, &d), bad, "limit");
    FAILS(sg_try_acquire(limit, NULL, 1, 1, &d), bad, "key");
    FAILS(sg_try_acquire(limit, NULL, 0, 1, &d), bad, "key");
    FAILS(sg_try_acquire(limit, "k", 1, 1, NULL), bad, "decision");
    FAILS(sg_acquire(limit, "k", 1, 1, 0, NULL), bad, "decision");
    FAILS(sg_reserve(limit, "k", 1, 1, 0, NULL), bad, "decision");
    FAILS(sg_peek(NULL, "k", 1, &d), bad, "limit");
    FAILS(sg_peek(limit, "k", 1, NULL), bad, "decision");
    FAILS(sg_refund(NULL, "k", 1, 1, NULL), bad, "limit");
    FAILS(sg_reset(NULL, "k", 1), bad, "limit");
    FAILS(sg_reset(limit, NULL, 3), bad, "key");
    FAILS(sg_hold(NULL, "k", 1, 0, &d, &permit), bad, "limit");
    FAILS(sg_hold(limit, "k", 1, 0, NULL, &permit), bad, "decision");
    FAILS(sg_hold(limit, "k", 1, 0, &d, NULL), bad, "permit");
    FAILS(sg_try_acquire_all(NULL, &entry, 1, &d), bad, "limiter");
    FAILS(sg_try_acquire_all(limiter, NULL, 1, &d), bad, "entries");
    FAILS(sg_try_acquire_all(limiter, &entry, 1, NULL), bad, "decision");
    FAILS(sg_try_acquire_all(limiter, &entry, 1, &d), bad, "limit");
    FAILS(sg_status(NULL, &status), bad, "limiter");
    FAILS(sg_status(limiter, NULL), bad, "status");
    FAILS(sg_manual_clock_new(0, NULL), bad, "clock");
    FAILS(sg_manual_clock_new(-2, &clock), bad, "start_us");
    FAILS(sg_manual_clock_advance(NULL, 1), bad, "clock");
    FAILS(sg_manual_clock_set(NULL, 1), bad, "clock");
    CHECK(sg_manual_clock_now(NULL) == -1);
    CHECK(sg_limit_name(NULL) == NULL && sg_limit_spec(NULL) == NULL);

    sg_limiter_close(NULL);
    sg_limit_close(NULL);
    sg_release(NULL);
    sg_manual_clock_free(NULL);
}

static void specs(sg_limiter *limiter) {
    static const char *const nonsense[] = {"100/", "0/s", "5/fortnight", "-1/s", "", "\xff\xfe/s", "1/s burst 0"};
    sg_limit *limit = NULL;
    char *text = (char *)malloc(MEGABYTE + 1);
    CHECK(text != NULL);
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        FAILS(sg_limit_open(limiter, "n", nonsense[i], &limit), SG_ERR_SPEC, "");
        CHECK(strlen(sg_last_error_message()) > 10);
    }
    for (const char *fill = "x1/;"; *fill != '\0'; fill++) {
        memset(text, *fill, MEGABYTE);
        text[MEGABYTE] = '\0';
        FAILS(sg_limit_open(limiter, "n", text, &limit), SG_ERR_SPEC, "");
        CHECK(strlen(sg_last_error_message()) < 1000);
        FAILS(sg_limit_open(limiter, text, "1/s", &limit), SG_ERR_ARGUMENT, "name");
        CHECK(strlen(sg_last_error_message()) < 1000);
    }
    FAILS(sg_limit_open(limiter, "", "1/s", &limit), SG_ERR_ARGUMENT, "name");
    FAILS(sg_limit_open(limiter, "\xff", "1/s", &limit), SG_ERR_ARGUMENT, "name");
    FAILS(sg_limit_open(limiter, "a\nb", "1/s", &limit), SG_ERR_ARGUMENT, "name");
    FAILS(sg_limit_open_on_outage(limiter, "n", "1/s", 9, &limit), SG_ERR_CONFIG, "share");
    CHECK(limit == NULL);
    free(text);
}

static void arguments(sg_limiter *limiter) {
    static const int64_t costs[] = {-1, INT64_MIN, INT64_MAX, (INT64_C(1) << 53) + 1};
    static const int64_t times[] = {-2, INT64_MIN, INT64_MAX};
    sg_limit *limit = open_limit(limiter, "costs", "10/h");
    sg_decision d;
    sg_entry entries[2] = {{limit, "k", 1, -1}, {limit, "k", 1, 1}};
    memset(&d, 0x55, sizeof d);
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        FAILS(sg_try_acquire(limit, "k", 1, costs[i], &d), SG_ERR_ARGUMENT, "cost");
        FAILS(sg_acquire(limit, "k", 1, costs[i], 0, &d), SG_ERR_ARGUMENT, "cost");
        FAILS(sg_reserve(limit, "k", 1, costs[i], 0, &d), SG_ERR_ARGUMENT, "cost");
        FAILS(sg_refund(limit, "k", 1, costs[i], &d), SG_ERR_ARGUMENT, "cost");
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        FAILS(sg_acquire(limit, "k", 1, 1, times[i], &d), SG_ERR_ARGUMENT, "timeout_us");
        FAILS(sg_reserve(limit, "k", 1, 1, times[i], &d), SG_ERR_ARGUMENT, "max_wait_us");
    }
    FAILS(sg_try_acquire_all(limiter, entries, 1, &d), SG_ERR_ARGUMENT, "cost");
    entries[0].cost = 1;
    FAILS(sg_try_acquire_all(limiter, entries, 2, &d), SG_ERR_ARGUMENT, "twice");
    FAILS(sg_try_acquire_all(limiter, entries, SIZE_MAX, &d), SG_ERR_ARGUMENT, "entries");
    FAILS(sg_try_acquire_all(limiter, entries, 0, &d), SG_ERR_ARGUMENT, "entries");
    CHECK(d.limit == 0x5555555555555555);

    OK(sg_try_acquire(limit, "k", 1, INT64_C(1) << 53, &d));
    CHECK(!d.allowed && d.retry_after == -1 && d.remaining == 10);
    OK(sg_refund(limit, "k", 1, 1, NULL));
    OK(sg_peek(limit, "k", 1, &d));
    CHECK(d.allowed && d.remaining == 10);
    sg_limit_close(limit);
}

static void keys(sg_limiter *limiter) {
    static const struct { const char *bytes; size_t length; } odd[] = {
        {"a", 1},    {"a\0b", 3}, {"a\0c", 3},      {"\0", 1},        {"\0\0", 2},        {"{a}", 3},
        {"a}", 2},   {"}{", 2},   {"%7D", 3},       {"\xff\xfe", 2},  {"\xf0\x9f\x9a\xb0", 4}, {" ", 1},
        {"a\r\nb", 4}, {"%h00", 4}, {"a:b", 3},
    };
    sg_limit *limit = open_limit(limiter, "keys", "fixed-window 1/h");
    char *large = (char *)malloc(MEGABYTE);
    sg_decision d;
    CHECK(large != NULL);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        OK(sg_try_acquire(limit, odd[i].bytes, odd[i].length, 1, &d));
        CHECK(d.allowed);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        OK(sg_try_acquire(limit, odd[i].bytes, odd[i].length, 1, &d));
        CHECK(!d.allowed);
    }
    memset(large, '{', MEGABYTE);
    OK(sg_try_acquire(limit, large, MEGABYTE, 1, &d));
    CHECK(d.allowed);
    OK(sg_try_acquire(limit, large, MEGABYTE, 1, &d));
    CHECK(!d.allowed);
    OK(sg_try_acquire(limit, large, MEGABYTE - 1, 1, &d));
    CHECK(d.allowed);
    FAILS(sg_try_acquire(limit, "", 0, 1, &d), SG_ERR_ARGUMENT, "key");
    FAILS(sg_try_acquire(limit, "k", SIZE_MAX, 1, &d), SG_ERR_ARGUMENT, "key");
    free(large);
    sg_limit_close(limit);
}

static void options(const char *url) {
    sg_limiter *limiter = NULL;
    sg_options set;
    memset(&set, 0, sizeof set);
    FAILS(sg_limiter_open(url, &set, &limiter), SG_ERR_ARGUMENT, "sg_options_init");
    FAILS(sg_options_init_sized(&set, 1), SG_ERR_ARGUMENT, "struct_size");
#define REFUSED(field, value, result, words)                                  \
    OK(sg_options_init(&set));                                                \
    set.field = (value);                                                      \
    FAILS(sg_limiter_open(url, &set, &limiter), (result), (words))
    REFUSED(timeout_us, 0, SG_ERR_CONFIG, "timeout");
    REFUSED(timeout_us, INT64_C(61000000), SG_ERR_CONFIG, "timeout");
    REFUSED(timeout_us, -5, SG_ERR_ARGUMENT, "timeout_us");
    REFUSED(deny_cache_us, INT64_MIN, SG_ERR_ARGUMENT, "deny_cache_us");
    REFUSED(max_keys, 0, SG_ERR_CONFIG, "max_keys");
    REFUSED(max_keys, -2, SG_ERR_CONFIG, "max_keys");
    REFUSED(max_keys, INT64_MAX, SG_ERR_CONFIG, "max_keys");
    REFUSED(on_outage, 4, SG_ERR_CONFIG, "on_outage");
    REFUSED(prefix, "", SG_ERR_CONFIG, "prefix");
    REFUSED(prefix, "a{b", SG_ERR_CONFIG, "prefix");
    REFUSED(prefix, "\xff", SG_ERR_CONFIG, "prefix");
    FAILS(sg_limiter_open("", NULL, &limiter), SG_ERR_CONFIG, "");
    FAILS(sg_limiter_open("http://localhost", NULL, &limiter), SG_ERR_CONFIG, "");
    FAILS(sg_limiter_open("redis://\xff", NULL, &limiter), SG_ERR_CONFIG, "url");
    FAILS(sg_limiter_open("redis://:hunter2@localhost:port", NULL, &limiter), SG_ERR_CONFIG, "");
    CHECK(strstr(sg_last_error_message(), "hunter2") == NULL);
    CHECK(limiter == NULL);
}

static void meaningless(sg_limiter *limiter) {
    sg_limit *bucket = open_limit(limiter, "bucket", "10/s");
    sg_limit *window = open_limit(limiter, "window", "fixed-window 10/s");
    sg_limit *permits = open_limit(limiter, "permits", "concurrency 1 ttl 1m");
    sg_decision d;
    sg_permit *permit = NULL;
    FAILS(sg_hold(bucket, "k", 1, 0, &d, &permit), SG_ERR_UNSUPPORTED, "bucket");
    FAILS(sg_reserve(window, "k", 1, 1, 0, &d), SG_ERR_UNSUPPORTED, "window");
    FAILS(sg_try_acquire(permits, "k", 1, 1, &d), SG_ERR_UNSUPPORTED, "permits");
    CHECK(permit == NULL);
    sg_limit_close(bucket);
    sg_limit_close(window);
    sg_limit_close(permits);
}

static void *another_thread(void *message) {
    *(size_t *)message = strlen(sg_last_error_message());
    return NULL;
}

static void errors_belong_to_a_thread(void) {
    pthread_t thread;
    size_t length = 1;
    FAILS(sg_reset(NULL, "k", 1), SG_ERR_ARGUMENT, "limit");
    CHECK(pthread_create(&thread, NULL, another_thread, &length) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(length == 0 && strlen(sg_last_error_message()) > 0);
}

static void closed(sg_limiter *limiter) {
    sg_limit *limit = open_limit(limiter, "closed", "10/s burst 5");
    sg_limiter_status status;
    sg_decision d;
    OK(sg_status(limiter, &status));
    CHECK(status.since_us > 0 && strlen(sg_store_state_name(status.state)) > 0);
    sg_limiter_close(limiter);
    FAILS(sg_try_acquire(limit, "k", 1, 1, &d), SG_ERR_CLOSED, "closed");
    FAILS(sg_acquire(limit, "k", 1, 1, -1, &d), SG_ERR_CLOSED, "closed");
    CHECK(strcmp(sg_limit_name(limit), "closed") == 0);
    CHECK(strcmp(sg_limit_spec(limit), "10/s burst 5") == 0);
    sg_limit_close(limit);
}

int main(void) {
    const char *list[2];
    int count = urls(list);
    CHECK(*sg_last_error_message() == '\0');
    CHECK(strcmp(sg_result_name(99), "unknown") == 0 && strcmp(sg_source_name(-1), "unknown") == 0);
    CHECK(strcmp(sg_store_state_name(99), "unknown") == 0);
    for (int i = 0; i < count; i++) {
        sg_limiter *limiter = open_limiter(list[i], NULL);
        sg_limit *limit = open_limit(limiter, "nulls", "2/h");
        sg_decision d;
        nulls(limiter, limit);
        OK(sg_peek(limit, "k", 1, &d));
        CHECK(d.allowed && d.remaining == 2 && from_store(&d, list[i]));
        sg_limit_close(limit);
        specs(limiter);
        arguments(limiter);
        keys(limiter);
        options(list[i]);
        meaningless(limiter);
        closed(limiter);
    }
    errors_belong_to_a_thread();
    printf("bad input: refused or decided right, on %d stores\n", count);
    return 0;
}
