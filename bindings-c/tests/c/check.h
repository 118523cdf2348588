/* What the test programs share: checks that say where they failed, and where to run. */
#ifndef CHECK_H
#define CHECK_H

#include <sluicegate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) check(__FILE__, __LINE__, #condition, (condition))
#define OK(call) expect(__FILE__, __LINE__, #call, (call), SG_OK, "")
/* The call gives `result`, with a message that holds `words`. */
#define FAILS(call, result, words) expect(__FILE__, __LINE__, #call, (call), (result), (words))

static inline void check(const char *file, int line, const char *what, bool holds) {
    if (holds) return;
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    exit(1);
}

static inline void expect(const char *file, int line, const char *call, sg_result got,
                          sg_result expected, const char *words) {
    const char *message = got == SG_OK ? "" : sg_last_error_message();
    if (got == expected && strstr(message, words) != NULL) return;
    fprintf(stderr, "%s:%d: %s\n    expected %s \"..%s..\", got %s \"%s\"\n", file, line, call,
            sg_result_name(expected), words, sg_result_name(got), message);
    exit(1);
}

/* The URLs to test on: memory://, and that of the environment if there is one. */
static inline int urls(const char *list[2]) {
    const char *redis = getenv("SLUICEGATE_TEST_REDIS");
    list[0] = "memory://";
    list[1] = redis;
    return redis != NULL && *redis != '\0' ? 2 : 1;
}

static inline const char *store(const char *url) {
    return strncmp(url, "memory", 6) == 0 ? "memory" : "redis";
}

/* A limiter with a prefix that no other test has, and time enough for a busy machine. */
static inline sg_limiter *open_limiter(const char *url, const sg_manual_clock *clock) {
    static int count;
    char prefix[64];
    sg_limiter *limiter = NULL;
    sg_options options;
    snprintf(prefix, sizeof prefix, "c-%ld-%lld-%d", (long)getpid(), (long long)time(NULL), ++count);
    OK(sg_options_init(&options));
    options.prefix = prefix;
    options.timeout_us = 5000000;
    options.deny_cache_us = 0;
    options.clock = clock;
    OK(sg_limiter_open(url, &options, &limiter));
    return limiter;
}

static inline sg_limit *open_limit(sg_limiter *limiter, const char *name, const char *spec) {
    sg_limit *limit = NULL;
    OK(sg_limit_open(limiter, name, spec, &limit));
    return limit;
}

/* Decided by the store, and not by an outage that the machine's load brought about. */
static inline bool from_store(const sg_decision *decision, const char *url) {
    return strcmp(sg_source_name(decision->source), store(url)) == 0;
}

#endif
