/* driver URL SPEC TIMEOUT_MS: for each line of input, one call with that key. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sluicegate.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    sg_options options;
    sg_limiter *limiter;
    sg_limit *limit;
    char line[1000];

    if (argc != 4) return 2;
    sg_options_init(&options);
    options.timeout_us = atol(argv[3]) * 1000;
    if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK ||
        sg_limit_open(limiter, "driven", argv[2], &limit) != SG_OK) {
        fprintf(stderr, "%s\n", sg_last_error_message());
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        sg_decision d;
        double started = now_ms();
        sg_result result = sg_try_acquire(limit, line, strcspn(line, "\n"), 1, &d);
        double ms = now_ms() - started;
        if (result == SG_OK)
            printf("{\"allowed\": %s, \"source\": \"%s\", \"error\": null, \"ms\": %f}\n", d.allowed ? "true" : "false",
                   sg_source_name((int)d.source), ms);
        else
            printf("{\"allowed\": null, \"source\": null, \"error\": \"%s\", \"ms\": %f}\n", sg_result_name((int)result), ms);
        fflush(stdout);
    }
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
