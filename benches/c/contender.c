/* The C contender of `make bench`: contender URL. One thread that blocks, on one key. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sluicegate.h>

enum { MOST = 10 * 1000 * 1000 };

static uint32_t *latencies;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void check(sg_result result) {
    if (result != SG_OK) {
        fprintf(stderr, "%s\n", sg_last_error_message());
        exit(1);
    }
}

/* Calls for so long; returns how many calls, and counts what Redis did not admit. */
static size_t run(sg_limit *limit, double seconds, double *took, size_t *odd) {
    int64_t started = now_ns(), last = started;
    size_t calls = 0;
    while (last - started < seconds * 1e9 && calls < MOST) {
        sg_decision decision;
        check(sg_try_acquire(limit, "user:00042", strlen("user:00042"), 1, &decision));
        *odd += !decision.allowed || decision.source != SG_SOURCE_REDIS;
        int64_t now = now_ns();
        latencies[calls++] = (uint32_t)(now - last);
        last = now;
    }
    *took = (double)(last - started) / 1e9;
    return calls;
}

int main(int argc, char **argv) {
    sg_limiter *limiter;
    sg_limit *limit;
    sg_decision decision;
    double warm, seconds, took;
    char line[256];

    if (argc != 2 || !(latencies = malloc(MOST * sizeof *latencies))) {
        fprintf(stderr, "usage: contender URL\n");
        return 2;
    }
    check(sg_limiter_open(argv[1], NULL, &limiter));
    check(sg_limit_open(limiter, "bench", "1/s burst 1000000000", &limit));
    for (int tries = 0; tries < 10000; tries++) {
        check(sg_try_acquire(limit, "warm-up", strlen("warm-up"), 1, &decision));
        if (decision.source == SG_SOURCE_REDIS)
            break;
    }
    puts("{\"ready\": true}");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "{\"warm\": %lf, \"seconds\": %lf}", &warm, &seconds) != 2)
            return 2;
        size_t odd = 0, before = run(limit, warm, &took, &odd);
        size_t calls = run(limit, seconds, &took, &odd);
        if (calls == 0)
            return 1;
        qsort(latencies, calls, sizeof *latencies, by_size);
        printf("{\"decisions\": %zu, \"seconds\": %.9f, \"total\": %zu, \"odd\": %zu, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
               calls, took, before + calls, odd, latencies[(calls - 1) / 2] / 1e3,
               latencies[(size_t)((double)(calls - 1) * 0.99)] / 1e3);
        fflush(stdout);
    }
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
