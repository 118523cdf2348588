/* After a fork, parent and child both go on with the handles they have. */
#include "loop.h"

#include <sys/types.h>
#include <sys/wait.h>

enum { TRIES = 100, COUNT = 150 };

/* How many of TRIES were admitted. */
static int use(sg_limit *limit, const char *url) {
    int admitted = 0;
    sg_decision d;
    for (int i = 0; i < TRIES; i++) {
        OK(sg_try_acquire(limit, "shared", 6, 1, &d));
        CHECK(from_store(&d, url));
        admitted += d.allowed;
    }
    return admitted;
}

/* Submits TRIES calls and collects them; returns how many were admitted. Tags count from `first`. */
static int use_queue(sg_queue *queue, sg_limit *limit, const char *url, uint64_t first) {
    sg_completion done[TRIES];
    int admitted = 0;
    for (uint64_t i = 0; i < TRIES; i++) OK(sg_submit_try_acquire(queue, limit, "queued", 6, 1, first + i));
    collect(queue, done, TRIES, TRIES);
    for (size_t i = 0; i < TRIES; i++) {
        CHECK(done[i].tag >= first && done[i].tag < first + TRIES);
        CHECK(done[i].result == SG_OK && from_store(&done[i].decision, url));
        admitted += done[i].decision.allowed;
    }
    CHECK(!readable(queue, 0));
    return admitted;
}

/* A queue with calls under way and with some to collect, over a fork. */
static void queues(const char *url) {
    sg_limiter *limiter = open_limiter(url, NULL);
    sg_limit *limit = open_limit(limiter, "forked", "fixed-window 150/h");
    sg_limit *permits = open_limit(limiter, "permits", "concurrency 1 ttl 1m");
    sg_queue *queue = NULL;
    sg_completion done[3];
    int status = 0;
    OK(sg_queue_open(&queue));
    OK(sg_submit_try_acquire(queue, limit, "other", 5, 1, 1));
    CHECK(readable(queue, 60000));
    OK(sg_submit_hold(queue, permits, "k", 1, 0, 1));
    OK(sg_submit_hold(queue, permits, "k", 1, 60000000, 1));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(120);
        /* Empty, with a descriptor that is not the parent's. */
        CHECK(!readable(queue, 100));
        int admitted = use_queue(queue, limit, url, 1000);
        sg_queue_close(queue);
        sg_limit_close(limit);
        sg_limit_close(permits);
        sg_limiter_close(limiter);
        exit(admitted);
    }
    /* What the parent had under way is the parent's still. */
    collect(queue, done, 2, 2);
    sg_release(done[0].permit);
    sg_release(done[1].permit);
    collect(queue, done + 2, 1, 1);
    CHECK(done[2].permit != NULL);
    sg_release(done[2].permit);
    int admitted = use_queue(queue, limit, url, 2000);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    int theirs = WEXITSTATUS(status);
    printf("fork: queues of %s admitted %d to the parent, %d to the child\n", store(url), admitted, theirs);
    if (strcmp(store(url), "redis") == 0) CHECK(admitted + theirs == COUNT);
    else CHECK(admitted == TRIES && theirs == TRIES);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limit_close(permits);
    sg_limiter_close(limiter);
}

int main(void) {
    const char *list[2];
    int count = urls(list);
    alarm(120);
    for (int i = 0; i < count; i++) {
        queues(list[i]);
        sg_limiter *limiter = open_limiter(list[i], NULL);
        sg_limit *limit = open_limit(limiter, "forked", "fixed-window 150/h");
        sg_decision d;
        int status = 0;
        OK(sg_try_acquire(limit, "shared", 6, 1, &d));
        CHECK(d.allowed);
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(120);
            int admitted = use(limit, list[i]);
            sg_limit_close(limit);
            sg_limiter_close(limiter);
            exit(admitted);
        }
        int admitted = use(limit, list[i]);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        int theirs = WEXITSTATUS(status);
        printf("fork: %s admitted %d to the parent, %d to the child\n", store(list[i]), admitted + 1, theirs);
        if (strcmp(store(list[i]), "redis") == 0) {
            CHECK(1 + admitted + theirs == COUNT);
        } else {
            /* memory:// is each process's own. */
            CHECK(admitted == TRIES && theirs == TRIES);
        }
        OK(sg_try_acquire(limit, "other", 5, 1, &d));
        CHECK(d.allowed && from_store(&d, list[i]));
        sg_limit_close(limit);
        sg_limiter_close(limiter);
    }
    return 0;
}
