/* Eight threads on one limit: exactly as many admissions as it has. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 8, TRIES = 200, COUNT = 1000 };

struct worker {
    const char *url;
    sg_limiter *limiter;
    sg_limit *limit;
    int admitted;
};

static void *work(void *argument) {
    struct worker *worker = (struct worker *)argument;
    sg_decision d;
    for (int i = 0; i < TRIES; i++) {
        OK(sg_try_acquire(worker->limit, "shared", 6, 1, &d));
        CHECK(from_store(&d, worker->url));
        worker->admitted += d.allowed;
        /* Limits come and go while others are in use. */
        if (i % 50 == 0) {
            sg_limit *own = open_limit(worker->limiter, "own", "5/h");
            OK(sg_reset(own, "k", 1));
            FAILS(sg_try_acquire(own, "", 0, 1, &d), SG_ERR_ARGUMENT, "key");
            sg_limit_close(own);
        }
    }
    return NULL;
}

int main(void) {
    const char *list[2];
    int count = urls(list);
    alarm(300);
    for (int i = 0; i < count; i++) {
        pthread_t threads[THREADS];
        struct worker workers[THREADS];
        sg_limiter *limiter = open_limiter(list[i], NULL);
        sg_limit *limit = open_limit(limiter, "threads", "fixed-window 1000/h");
        int admitted = 0;
        for (int t = 0; t < THREADS; t++) {
            workers[t].url = list[i];
            workers[t].limiter = limiter;
            workers[t].limit = limit;
            workers[t].admitted = 0;
            CHECK(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
        }
        for (int t = 0; t < THREADS; t++) {
            CHECK(pthread_join(threads[t], NULL) == 0);
            admitted += workers[t].admitted;
        }
        sg_limit_close(limit);
        sg_limiter_close(limiter);
        printf("threads: %s admitted %d of %d tries\n", store(list[i]), admitted, THREADS * TRIES);
        CHECK(admitted == COUNT);
    }
    return 0;
}
