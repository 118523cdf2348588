/* The form of the verbs that never blocks. */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>

enum { MANY = 2000, THREADS = 4 };

static const int64_t HOUR = INT64_C(3600000000);

static sg_queue *open_queue(void) {
    sg_queue *queue = NULL;
    OK(sg_queue_open(&queue));
    CHECK(queue != NULL && sg_queue_fd(queue) >= 0);
    return queue;
}

/* The next completion is that of `tag`, went well and was decided by the store. */
static sg_completion decided(sg_queue *queue, uint64_t tag, const char *url) {
    sg_completion done = collect_one(queue);
    CHECK(done.tag == tag && done.result == SG_OK && done.message == NULL);
    CHECK(from_store(&done.decision, url));
    return done;
}

static void every_verb(const char *url) {
    sg_manual_clock *clock = NULL;
    OK(sg_manual_clock_new(-1, &clock));
    sg_limiter *limiter = open_limiter(url, clock);
    sg_limit *bucket = open_limit(limiter, "bucket", "3/h"), *other = open_limit(limiter, "other", "1/h");
    sg_limit *permits = open_limit(limiter, "permits", "concurrency 1 ttl 1m");
    sg_queue *queue = open_queue();
    sg_entry entries[2] = {{bucket, "all", 3, 1}, {other, "all", 3, 1}};
    sg_completion done;
    sg_permit *permit;

    OK(sg_submit_try_acquire(queue, bucket, "k", 1, 2, 1));
    done = decided(queue, 1, url);
    CHECK(done.decision.allowed && done.decision.limit == 3 && done.decision.remaining == 1);
    CHECK(done.permit == NULL && done.message == NULL);
    OK(sg_submit_try_acquire(queue, bucket, "k", 1, 2, UINT64_MAX));
    done = decided(queue, UINT64_MAX, url);
    CHECK(!done.decision.allowed && done.decision.retry_after == HOUR / 3);
    OK(sg_submit_peek(queue, bucket, "k", 1, 2));
    CHECK(decided(queue, 2, url).decision.remaining == 1);
    OK(sg_submit_refund(queue, bucket, "k", 1, 1, 3));
    CHECK(decided(queue, 3, url).decision.remaining == 2);
    OK(sg_submit_reset(queue, bucket, "k", 1, 4));
    done = collect_one(queue);
    CHECK(done.tag == 4 && done.result == SG_OK && done.decision.limit == 0);
    OK(sg_submit_reserve(queue, bucket, "k", 1, 3, -1, 5));
    CHECK(decided(queue, 5, url).decision.wait == 0);
    OK(sg_submit_reserve(queue, bucket, "k", 1, 3, -1, 6));
    CHECK(decided(queue, 6, url).decision.wait == HOUR);
    OK(sg_submit_acquire(queue, bucket, "k", 1, 1, 0, 7));
    CHECK(!decided(queue, 7, url).decision.allowed);
    OK(sg_submit_acquire(queue, bucket, "fresh", 5, 1, 0, 8));
    CHECK(decided(queue, 8, url).decision.allowed);

    OK(sg_submit_hold(queue, permits, "k", 1, 0, 9));
    done = decided(queue, 9, url);
    permit = done.permit;
    CHECK(done.decision.allowed && permit != NULL);
    OK(sg_submit_hold(queue, permits, "k", 1, 0, 10));
    done = decided(queue, 10, url);
    CHECK(!done.decision.allowed && done.permit == NULL);

    OK(sg_submit_try_acquire_all(queue, limiter, entries, 2, 11));
    done = decided(queue, 11, url);
    CHECK(done.decision.allowed && done.decision.remaining == 0);
    OK(sg_submit_try_acquire_all(queue, limiter, entries, 2, 12));
    CHECK(!decided(queue, 12, url).decision.allowed);

    /* What was collected outlives the queue. */
    sg_queue_close(queue);
    sg_release(permit);
    sg_limit_close(bucket);
    sg_limit_close(other);
    sg_limit_close(permits);
    sg_limiter_close(limiter);
    sg_manual_clock_free(clock);
}

static void readable_while_there_is_something(void) {
    sg_limiter *limiter = open_limiter("memory://", NULL);
    sg_limit *limit = open_limit(limiter, "limit", "1000000/s");
    sg_queue *queue = open_queue();
    sg_completion done[8];
    size_t count = 9;

    CHECK(!readable(queue, 0));
    OK(sg_queue_collect(queue, done, 8, &count));
    CHECK(count == 0);
    for (uint64_t tag = 0; tag < 20; tag++) OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, tag));
    for (uint64_t tag = 0; tag < 20; tag += count) {
        CHECK(readable(queue, 0));
        OK(sg_queue_collect(queue, done, 8, &count));
        CHECK(count == (tag < 16 ? 8 : 4));
        for (size_t i = 0; i < count; i++) CHECK(done[i].tag == tag + i && done[i].decision.allowed);
    }
    CHECK(!readable(queue, 0));
    OK(sg_queue_collect(queue, done, 8, &count));
    CHECK(count == 0);
    CHECK((fcntl(sg_queue_fd(queue), F_GETFD) & FD_CLOEXEC) != 0);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

/* A program that reads the descriptor, which it must not, does not stop anything. */
static void a_descriptor_that_is_read(void) {
    sg_limiter *limiter = open_limiter("memory://", NULL);
    sg_limit *limit = open_limit(limiter, "limit", "10/s");
    sg_queue *queue = open_queue();
    sg_completion done;
    size_t count = 0;
    char byte[8];
    CHECK(read(sg_queue_fd(queue), byte, sizeof byte) == -1);
    OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 1));
    OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2));
    /* One byte, however many there are to collect. */
    CHECK(read(sg_queue_fd(queue), byte, sizeof byte) == 1);
    OK(sg_queue_collect(queue, &done, 1, &count));
    OK(sg_queue_collect(queue, &done, 1, &count));
    CHECK(count == 1 && done.tag == 2);
    OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 3));
    CHECK(collect_one(queue).tag == 3);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

static void many_at_once(const char *url) {
    static sg_completion done[MANY];
    sg_limiter *limiter = open_limiter(url, NULL);
    sg_limit *limit = open_limit(limiter, "limit", "fixed-window 500/h");
    sg_queue *queue = open_queue();
    char key[16];
    int admitted = 0, wakes;
    bool seen[MANY] = {false};
    /* Half of them on one key, the others each on its own. */
    for (uint64_t tag = 0; tag < MANY; tag++) {
        int length = snprintf(key, sizeof key, "%d", tag % 2 == 0 ? 0 : (int)tag);
        OK(sg_submit_try_acquire(queue, limit, key, (size_t)length, 1, tag));
    }
    wakes = collect(queue, done, MANY, 64);
    for (size_t i = 0; i < MANY; i++) {
        CHECK(done[i].result == SG_OK && from_store(&done[i].decision, url));
        CHECK(done[i].tag < MANY && !seen[done[i].tag]);
        seen[done[i].tag] = true;
        admitted += done[i].decision.allowed;
    }
    CHECK(admitted == 500 + MANY / 2);
    CHECK(!readable(queue, 0));
    printf("queue: %s decided %d calls in %d wake-ups\n", store(url), MANY, wakes);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

/* Waits until the key's state will be fresh after `expected`: turns come back in the background. */
#define COMES_TO(limit, expected) comes_to(__LINE__, (limit), (expected))
static void comes_to(int line, sg_limit *limit, int64_t expected) {
    const struct timespec pause = {0, 5000000};
    sg_decision d;
    for (int i = 0; i < 6000; i++) {
        OK(sg_peek(limit, "k", 1, &d));
        if (d.reset_after == expected) return;
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "%s:%d: reset_after did not come to %lld\n", __FILE__, line, (long long)expected);
    exit(1);
}

static void turns(const char *url) {
    sg_manual_clock *clock = NULL;
    OK(sg_manual_clock_new(-1, &clock));
    sg_limiter *limiter = open_limiter(url, clock);
    sg_limit *limit = open_limit(limiter, "turns", "1/h burst 1");
    sg_queue *queue = open_queue();
    sg_completion done;

    OK(sg_submit_acquire(queue, limit, "k", 1, 1, -1, 0));
    CHECK(decided(queue, 0, url).decision.allowed);
    for (uint64_t tag = 1; tag <= 4; tag++) {
        OK(sg_submit_acquire(queue, limit, "k", 1, 1, -1, tag / 3));
        COMES_TO(limit, HOUR * (int64_t)(tag + 1));
    }
    CHECK(!readable(queue, 0));
    /* The later two of the four. */
    OK(sg_queue_cancel(queue, 1));
    COMES_TO(limit, HOUR * 3);
    /* The rest have their turn when the clock says so. */
    for (int i = 0; i < 2; i++) {
        OK(sg_manual_clock_advance(clock, HOUR));
        done = decided(queue, 0, url);
        CHECK(done.decision.allowed && done.decision.wait == 0);
        CHECK(!readable(queue, 0));
    }
    OK(sg_queue_cancel(queue, 0));

    /* A queue that is closed gives all turns back, and one that has come but was not collected stays taken. */
    OK(sg_submit_reset(queue, limit, "k", 1, 9));
    CHECK(collect_one(queue).tag == 9);
    for (uint64_t tag = 1; tag <= 4; tag++) {
        OK(sg_submit_acquire(queue, limit, "k", 1, 1, -1, tag));
        COMES_TO(limit, HOUR * (int64_t)tag);
    }
    CHECK(readable(queue, 60000));
    sg_queue_close(queue);
    COMES_TO(limit, HOUR);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    sg_manual_clock_free(clock);
}

static void permits(const char *url) {
    sg_limiter *limiter = open_limiter(url, NULL);
    sg_limit *limit = open_limit(limiter, "permits", "concurrency 2 ttl 1m");
    sg_queue *queue = open_queue();
    sg_completion done;

    /* One that waits gets the one that is given back. */
    OK(sg_submit_hold(queue, limit, "k", 1, 0, 1));
    sg_permit *first = decided(queue, 1, url).permit;
    OK(sg_submit_hold(queue, limit, "k", 1, 0, 2));
    sg_permit *second = decided(queue, 2, url).permit;
    CHECK(first != NULL && second != NULL);
    OK(sg_submit_hold(queue, limit, "k", 1, 60000000, 3));
    sg_release(first);
    done = decided(queue, 3, url);
    CHECK(done.decision.allowed && done.permit != NULL);
    sg_release(second);
    sg_release(done.permit);
    COMES_TO(limit, 0);

    /* Not collected, but cancelled or closed: nobody holds them. */
    OK(sg_submit_hold(queue, limit, "k", 1, 0, 4));
    CHECK(readable(queue, 60000));
    OK(sg_queue_cancel(queue, 4));
    CHECK(!readable(queue, 0));
    COMES_TO(limit, 0);
    for (uint64_t tag = 5; tag < 10; tag++) OK(sg_submit_hold(queue, limit, "k", 1, 60000000, tag));
    CHECK(readable(queue, 60000));
    sg_queue_close(queue);
    COMES_TO(limit, 0);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

/* Closing a queue, or the limiter and its limits, with calls in flight. */
static void closing(const char *url) {
    sg_completion done[64];
    for (int round = 0; round < 20; round++) {
        sg_limiter *limiter = open_limiter(url, NULL);
        sg_limit *limit = open_limit(limiter, "limit", "fixed-window 1000/h");
        sg_limit *turns = open_limit(limiter, "turns", "1/h burst 1");
        sg_queue *queue = open_queue();
        for (uint64_t tag = 0; tag < 60; tag++) OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, tag));
        for (uint64_t tag = 60; tag < 64; tag++) OK(sg_submit_acquire(queue, turns, "k", 1, 1, 0, tag));
        if (round % 2 == 0) {
            sg_queue_close(queue);
            queue = NULL;
        }
        sg_limit_close(limit);
        sg_limit_close(turns);
        sg_limiter_close(limiter);
        /* What was under way is still answered, by the store or by what it can be said without it. */
        if (queue != NULL) collect(queue, done, 64, 64);
        sg_queue_close(queue);
    }
}

static void what_went_wrong(void) {
    sg_limiter *limiter = NULL;
    sg_limit *limit = NULL, *shared = NULL;
    sg_queue *queue = open_queue();
    sg_completion done[2];
    sg_options options;
    size_t count = 0;
    OK(sg_options_init(&options));
    options.timeout_us = 200000;
    /* Port 1 of this machine: nobody listens. */
    OK(sg_limiter_open("redis://:hunter2@127.0.0.1:1", &options, &limiter));
    OK(sg_limit_open_on_outage(limiter, "raise", "10/h", SG_ON_OUTAGE_RAISE, &limit));
    shared = open_limit(limiter, "share", "10/h");

    for (uint64_t tag = 1; tag <= 3; tag++) {
        /* First while a connection is tried, then when it is known to be away. */
        OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, tag));
        done[0] = collect_one(queue);
        CHECK(done[0].tag == tag && done[0].result == SG_ERR_OUTAGE && !done[0].decision.allowed);
        CHECK(done[0].message != NULL && strlen(done[0].message) > 0);
        CHECK(strstr(done[0].message, "hunter2") == NULL);
    }
    OK(sg_submit_try_acquire(queue, shared, "k", 1, 1, 4));
    done[0] = collect_one(queue);
    CHECK(done[0].result == SG_OK && done[0].message == NULL && done[0].decision.source == SG_SOURCE_OUTAGE);

    sg_limiter_close(limiter);
    OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 5));
    OK(sg_submit_acquire(queue, limit, "k", 1, 1, -1, 6));
    for (uint64_t tag = 5; tag <= 6; tag++) {
        done[0] = collect_one(queue);
        CHECK(done[0].tag == tag && done[0].result == SG_ERR_CLOSED);
        CHECK(strstr(done[0].message, "closed") != NULL);
    }
    OK(sg_queue_collect(queue, done, 2, &count));
    CHECK(count == 0);
    sg_limit_close(limit);
    sg_limit_close(shared);
    sg_queue_close(queue);
}

static void bad_input(void) {
    const sg_result bad = SG_ERR_ARGUMENT;
    sg_limiter *limiter = open_limiter("memory://", NULL);
    sg_limit *limit = open_limit(limiter, "limit", "10/h"), *permits = open_limit(limiter, "permits", "concurrency 1 ttl 1m");
    sg_queue *queue = open_queue();
    sg_entry entry = {limit, "k", 1, 1};
    sg_completion done;
    size_t count = 7;

    FAILS(sg_queue_open(NULL), bad, "queue");
    CHECK(sg_queue_fd(NULL) == -1);
    FAILS(sg_queue_collect(NULL, &done, 1, &count), bad, "queue");
    FAILS(sg_queue_collect(queue, NULL, 1, &count), bad, "completions");
    FAILS(sg_queue_collect(queue, &done, 1, NULL), bad, "count");
    FAILS(sg_queue_cancel(NULL, 1), bad, "queue");
    FAILS(sg_submit_try_acquire(NULL, limit, "k", 1, 1, 1), bad, "queue");
    FAILS(sg_submit_try_acquire(queue, NULL, "k", 1, 1, 1), bad, "limit");
    FAILS(sg_submit_try_acquire(queue, limit, NULL, 1, 1, 1), bad, "key");
    FAILS(sg_submit_try_acquire(queue, limit, "", 0, 1, 1), bad, "key");
    FAILS(sg_submit_try_acquire(queue, limit, "k", SIZE_MAX, 1, 1), bad, "key");
    FAILS(sg_submit_try_acquire(queue, limit, "k", 1, -1, 1), bad, "cost");
    FAILS(sg_submit_acquire(queue, limit, "k", 1, 1, -2, 1), bad, "timeout_us");
    FAILS(sg_submit_reserve(queue, limit, "k", 1, 1, -2, 1), bad, "max_wait_us");
    FAILS(sg_submit_hold(queue, permits, "k", 1, -2, 1), bad, "timeout_us");
    FAILS(sg_submit_peek(queue, NULL, "k", 1, 1), bad, "limit");
    FAILS(sg_submit_reset(queue, NULL, "k", 1, 1), bad, "limit");
    FAILS(sg_submit_refund(queue, limit, "k", 1, -1, 1), bad, "cost");
    FAILS(sg_submit_hold(queue, limit, "k", 1, 0, 1), SG_ERR_UNSUPPORTED, "hold");
    FAILS(sg_submit_try_acquire(queue, permits, "k", 1, 1, 1), SG_ERR_UNSUPPORTED, "permits");
    FAILS(sg_submit_try_acquire_all(queue, NULL, &entry, 1, 1), bad, "limiter");
    FAILS(sg_submit_try_acquire_all(queue, limiter, NULL, 1, 1), bad, "entries");
    FAILS(sg_submit_try_acquire_all(queue, limiter, &entry, 0, 1), bad, "entries");
    /* None of these comes out by collect. */
    CHECK(!readable(queue, 0));
    OK(sg_queue_collect(queue, &done, 1, &count));
    CHECK(count == 0);
    OK(sg_queue_cancel(queue, 1));
    OK(sg_submit_peek(queue, limit, "k", 1, 1));
    CHECK(collect_one(queue).decision.remaining == 10);
    sg_queue_close(NULL);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limit_close(permits);
    sg_limiter_close(limiter);
}

static void a_full_queue(void) {
    enum { MOST = 100000, CAPACITY = 1000 };
    static sg_completion done[CAPACITY];
    sg_limiter *limiter = open_limiter("memory://", NULL);
    sg_limit *limit = open_limit(limiter, "limit", "1000000000/s");
    sg_queue *queue = open_queue();
    size_t count = 0;
    CHECK(strcmp(sg_result_name(SG_ERR_FULL), "full") == 0);
    for (int i = 0; i < MOST; i++) OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, (uint64_t)i % 2));
    FAILS(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2), SG_ERR_FULL, "100000");
    FAILS(sg_submit_try_acquire(queue, limit, "k", 1, -1, 2), SG_ERR_FULL, "collect");
    OK(sg_queue_collect(queue, done, 1, &count));
    CHECK(count == 1);
    OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2));
    FAILS(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2), SG_ERR_FULL, "100000");
    OK(sg_queue_cancel(queue, 1));
    for (int i = 0; i < MOST / 2; i++) OK(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2));
    FAILS(sg_submit_try_acquire(queue, limit, "k", 1, 1, 2), SG_ERR_FULL, "100000");
    for (size_t left = MOST; left > 0; left -= count) {
        OK(sg_queue_collect(queue, done, CAPACITY, &count));
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++) CHECK(done[i].decision.allowed && done[i].tag != 1);
    }
    CHECK(!readable(queue, 0));
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

struct submitter {
    sg_queue *queue;
    sg_limit *limit;
    uint64_t first;
};

static void *submit(void *argument) {
    struct submitter *own = (struct submitter *)argument;
    for (uint64_t i = 0; i < MANY; i++) {
        OK(sg_submit_try_acquire(own->queue, own->limit, "k", 1, 1, own->first + i));
        if (i % 100 == 0) {
            /* A tag of its own, which nobody collects: it is either cancelled or there. */
            OK(sg_submit_peek(own->queue, own->limit, "other", 5, UINT64_MAX - own->first));
            OK(sg_queue_cancel(own->queue, UINT64_MAX - own->first));
        }
    }
    return NULL;
}

static void threads(const char *url) {
    enum { ALL = THREADS * MANY };
    static sg_completion done[ALL + 1];
    static bool seen[ALL];
    sg_limiter *limiter = open_limiter(url, NULL);
    sg_limit *limit = open_limit(limiter, "limit", "fixed-window 3000/h");
    sg_queue *queue = open_queue();
    pthread_t running[THREADS];
    struct submitter submitters[THREADS];
    size_t got = 0, count;
    int admitted = 0;
    memset(seen, 0, sizeof seen);
    for (int t = 0; t < THREADS; t++) {
        submitters[t].queue = queue;
        submitters[t].limit = limit;
        submitters[t].first = (uint64_t)t * MANY;
        CHECK(pthread_create(&running[t], NULL, submit, &submitters[t]) == 0);
    }
    while (got < ALL) {
        CHECK(readable(queue, 60000));
        OK(sg_queue_collect(queue, done, 128, &count));
        for (size_t i = 0; i < count; i++) {
            CHECK(done[i].result == SG_OK && from_store(&done[i].decision, url));
            if (done[i].tag >= ALL) continue;
            CHECK(!seen[done[i].tag]);
            seen[done[i].tag] = true;
            admitted += done[i].decision.allowed;
            got++;
        }
    }
    for (int t = 0; t < THREADS; t++) CHECK(pthread_join(running[t], NULL) == 0);
    CHECK(admitted == 3000);
    OK(sg_queue_collect(queue, done, 1, &count));
    CHECK(count == 0 && !readable(queue, 0));
    printf("queue: %s admitted %d of %d calls of %d threads\n", store(url), admitted, ALL, THREADS);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
}

int main(void) {
    const char *list[2];
    int count = urls(list);
    alarm(300);
    readable_while_there_is_something();
    a_descriptor_that_is_read();
    bad_input();
    a_full_queue();
    what_went_wrong();
    for (int i = 0; i < count; i++) {
        every_verb(list[i]);
        many_at_once(list[i]);
        turns(list[i]);
        permits(list[i]);
        closing(list[i]);
        threads(list[i]);
    }
    printf("queue: all as it should be, on %d stores\n", count);
    return 0;
}
