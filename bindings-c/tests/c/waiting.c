/* Calls that wait: woken by the clock, by a permit that comes back, or not at all. */
#include "check.h"

#include <pthread.h>

struct waiter {
    sg_limit *limit;
    sg_decision decision;
    sg_permit *permit;
    bool done;
    pthread_mutex_t lock;
};

static void init(struct waiter *waiter, sg_limit *limit) {
    memset(waiter, 0, sizeof *waiter);
    waiter->limit = limit;
    CHECK(pthread_mutex_init(&waiter->lock, NULL) == 0);
}

static bool done(struct waiter *waiter, bool now) {
    CHECK(pthread_mutex_lock(&waiter->lock) == 0);
    waiter->done |= now;
    now = waiter->done;
    CHECK(pthread_mutex_unlock(&waiter->lock) == 0);
    return now;
}

static void *acquire(void *argument) {
    struct waiter *waiter = (struct waiter *)argument;
    OK(sg_acquire(waiter->limit, "k", 1, 1, -1, &waiter->decision));
    done(waiter, true);
    return NULL;
}

static void *hold(void *argument) {
    struct waiter *waiter = (struct waiter *)argument;
    OK(sg_hold(waiter->limit, "k", 1, 60000000, &waiter->decision, &waiter->permit));
    return NULL;
}

static void a_clock_wakes(const char *url) {
    sg_manual_clock *clock = NULL;
    OK(sg_manual_clock_new(-1, &clock));
    sg_limiter *limiter = open_limiter(url, clock);
    struct waiter waiter;
    pthread_t thread;
    sg_decision d;
    int64_t start = sg_manual_clock_now(clock);

    init(&waiter, open_limit(limiter, "turns", "1/h burst 1"));
    OK(sg_acquire(waiter.limit, "k", 1, 1, -1, &d));
    CHECK(d.allowed && from_store(&d, url));
    OK(sg_acquire(waiter.limit, "k", 1, 1, INT64_C(3599999999), &d));
    CHECK(!d.allowed && d.retry_after == INT64_C(3600000000));
    OK(sg_reserve(waiter.limit, "k", 1, 1, -1, &d));
    CHECK(d.allowed && d.wait == INT64_C(3600000000));
    OK(sg_refund(waiter.limit, "k", 1, 1, NULL));

    CHECK(pthread_create(&thread, NULL, acquire, &waiter) == 0);
    /* Nobody can see from outside when a call has begun to wait, so time goes on until it is done. */
    while (!done(&waiter, false)) {
        const struct timespec pause = {0, 10000000};
        OK(sg_manual_clock_advance(clock, INT64_C(3600000000)));
        nanosleep(&pause, NULL);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waiter.decision.allowed);
    CHECK(sg_manual_clock_now(clock) > start);
    OK(sg_manual_clock_set(clock, 5));
    CHECK(sg_manual_clock_now(clock) == 5);

    sg_limit_close(waiter.limit);
    sg_limiter_close(limiter);
    sg_manual_clock_free(clock);
}

static void a_permit_comes_back(const char *url) {
    sg_limiter *limiter = open_limiter(url, NULL);
    struct waiter waiter;
    pthread_t thread;
    sg_permit *first = NULL, *second = NULL;
    sg_decision d;

    init(&waiter, open_limit(limiter, "permits", "concurrency 1 ttl 1m"));
    OK(sg_hold(waiter.limit, "k", 1, 0, &d, &first));
    CHECK(d.allowed && first != NULL && d.remaining == 0);
    second = first;
    OK(sg_hold(waiter.limit, "k", 1, 0, &d, &second));
    CHECK(!d.allowed && second == NULL);
    CHECK(pthread_create(&thread, NULL, hold, &waiter) == 0);
    sg_release(first);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waiter.decision.allowed && waiter.permit != NULL);
    sg_limit_close(waiter.limit);
    sg_release(waiter.permit);
    sg_limiter_close(limiter);
}

int main(void) {
    const char *list[2];
    int count = urls(list);
    alarm(300);
    for (int i = 0; i < count; i++) {
        a_clock_wakes(list[i]);
        a_permit_comes_back(list[i]);
    }
    printf("waiting: woken in time, on %d stores\n", count);
    return 0;
}
