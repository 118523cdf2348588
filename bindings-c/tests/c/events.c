/* What changes is told to a callback, on another thread, and never after the limiter was closed. */
#include "check.h"

#include <pthread.h>

struct log {
    pthread_mutex_t mutex;
    int count;
    int kind;
    pthread_t thread;
    char message[256];
};

static void note(const sg_event *event, void *user_data) {
    struct log *log = (struct log *)user_data;
    pthread_mutex_lock(&log->mutex);
    log->count++;
    log->kind = event->kind;
    log->thread = pthread_self();
    snprintf(log->message, sizeof log->message, "%s", event->message);
    CHECK(event->at_us > INT64_C(1000000000000000));
    pthread_mutex_unlock(&log->mutex);
}

static int told(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    int count = log->count;
    pthread_mutex_unlock(&log->mutex);
    return count;
}

static sg_limiter *listening(const char *url, struct log *log) {
    sg_limiter *limiter = NULL;
    sg_options options;
    OK(sg_options_init(&options));
    options.max_keys = 64;
    options.on_event = note;
    options.user_data = log;
    OK(sg_limiter_open(url, &options, &limiter));
    return limiter;
}

static void expect_event(struct log *log, int kind, const char *words) {
    struct timespec pause = {0, 5000000};
    for (int tries = 0; told(log) == 0 && tries < 6000; tries++) nanosleep(&pause, NULL);
    CHECK(log->kind == kind);
    CHECK(strstr(log->message, words) != NULL);
    CHECK(!pthread_equal(log->thread, pthread_self()));
}

static void away(void) {
    struct log log = {PTHREAD_MUTEX_INITIALIZER, 0, -1, pthread_self(), ""};
    sg_limiter *limiter = listening("redis://127.0.0.1:1", &log);
    expect_event(&log, SG_EVENT_OUT, "refused");
    sg_limiter_close(limiter);
    int count = told(&log);
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL);
    CHECK(told(&log) == count && count == 1);
}

static void full(void) {
    struct log log = {PTHREAD_MUTEX_INITIALIZER, 0, -1, pthread_self(), ""};
    sg_limiter *limiter = listening("memory://", &log);
    sg_limit *limit = open_limit(limiter, "a", "1/d");
    sg_decision d;
    for (int key = 0; key < 1000; key++) OK(sg_try_acquire(limit, &key, sizeof key, 1, &d));
    expect_event(&log, SG_EVENT_FULL, "max_keys");
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    CHECK(log.count == 1);
}

int main(void) {
    alarm(300);
    away();
    full();
    CHECK(strcmp(sg_event_kind_name(SG_EVENT_BACK), "back") == 0);
    CHECK(strcmp(sg_event_kind_name(-1), "unknown") == 0);
    puts("events: 2 passed");
    return 0;
}
