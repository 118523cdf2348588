/* tries URL SPEC TIMES: waits for a line of input, then tries; prints how many were admitted, and the
 * sources of all decisions. */
#include <stdio.h>
#include <stdlib.h>

#include <sluicegate.h>

int main(int argc, char **argv) {
    sg_options options;
    sg_limiter *limiter;
    sg_limit *limit;
    sg_decision decision;
    long admitted = 0, sources[5] = {0};

    if (argc != 4) return 2;
    sg_options_init(&options);
    options.timeout_us = 10000000;
    if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK ||
        sg_limit_open(limiter, "tries", argv[2], &limit) != SG_OK)
        goto failed;
    getchar();
    for (long n = atol(argv[3]); n > 0; n--) {
        if (sg_try_acquire(limit, "everyone", 8, 1, &decision) != SG_OK) goto failed;
        admitted += decision.allowed;
        sources[decision.source]++;
    }
    printf("%ld", admitted);
    for (int source = 0; source < 5; source++)
        if (sources[source]) printf(" %s=%ld", sg_source_name(source), sources[source]);
    puts("");
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
failed:
    fprintf(stderr, "%s\n", sg_last_error_message());
    return 1;
}
