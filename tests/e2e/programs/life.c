/* life URL SPEC TASKS: for each line of input, does it and prints what came of it as JSON; see life.py.
 * With TASKS above 0, "decide" calls from so many threads. "forks N": so many children, one after the other,
 * each with ten calls on one key. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sluicegate.h>

static const char *url;
static sg_limiter *limiter;
static sg_limit *limit;

struct work {
    pthread_t thread;
    sg_limit *limit;
    long first, step, end, allowed, closed, wrong;
    const char *key;
};

static void fail(void) {
    fprintf(stderr, "%s\n", sg_last_error_message());
    exit(1);
}

static void *call(void *argument) {
    struct work *work = argument;
    for (long n = work->first; n < work->end; n += work->step) {
        sg_decision d;
        char key[24];
        snprintf(key, sizeof key, "key:%ld", n % 100);
        const char *used = work->key ? work->key : key;
        sg_result result = sg_try_acquire(work->limit, used, strlen(used), 1, &d);
        if (result == SG_OK) {
            work->allowed += d.allowed;
        } else {
            work->closed += result == SG_ERR_CLOSED;
            work->wrong += result != SG_ERR_CLOSED;
            break;
        }
    }
    return NULL;
}

/* Shares out `count` calls among threads, or makes them here where there are none. */
static struct work together(sg_limit *on, long threads, long count, const char *key, sg_limiter *closing) {
    struct work sum = {0};
    struct work *works = calloc((size_t)(threads ? threads : 1), sizeof *works);
    if (!works) exit(1);
    for (long n = 0; n < (threads ? threads : 1); n++) {
        works[n] = (struct work){.limit = on, .first = n, .step = threads ? threads : 1, .end = count, .key = key};
        if (!threads) call(&works[n]);
        else if (pthread_create(&works[n].thread, NULL, call, &works[n]) != 0) exit(1);
    }
    if (closing) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        sg_limiter_close(closing);
    }
    for (long n = 0; n < (threads ? threads : 1); n++) {
        if (threads) pthread_join(works[n].thread, NULL);
        sum.allowed += works[n].allowed;
        sum.closed += works[n].closed;
        sum.wrong += works[n].wrong;
    }
    free(works);
    return sum;
}

static sg_limiter *another(sg_limit **its) {
    sg_limiter *other;
    sg_options options;
    sg_options_init(&options);
    options.timeout_us = 10000000;
    if (sg_limiter_open(url, &options, &other) != SG_OK || sg_limit_open(other, "other", "1000000/s", its) != SG_OK) fail();
    return other;
}

static long forks(long count) {
    long well = 0;
    for (long n = 0; n < count; n++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            struct work done = together(limit, 0, 10, "everyone", NULL);
            sg_limit_close(limit);
            sg_limiter_close(limiter);
            exit(done.allowed == 10 ? 0 : 1);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) exit(1);
        well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return well;
}

int main(int argc, char **argv) {
    char line[100];
    sg_options options;

    if (argc != 4) return 2;
    url = argv[1];
    long tasks = atol(argv[3]);
    sg_options_init(&options);
    options.timeout_us = 10000000;
    if (sg_limiter_open(url, &options, &limiter) != SG_OK || sg_limit_open(limiter, "life", argv[2], &limit) != SG_OK) fail();
    while (fgets(line, sizeof line, stdin)) {
        char verb[20];
        long count = 0;
        sscanf(line, "%19s %ld", verb, &count);
        if (strcmp(verb, "decide") == 0) {
            printf("{\"allowed\": %ld}\n", together(limit, tasks, count, NULL, NULL).allowed);
        } else if (strcmp(verb, "limiters") == 0) {
            long allowed = 0;
            for (long n = 0; n < count; n++) {
                sg_limit *its;
                sg_limiter *other = another(&its);
                allowed += together(its, 0, 1, "k", NULL).allowed;
                sg_limit_close(its);
                sg_limiter_close(other);
            }
            printf("{\"allowed\": %ld}\n", allowed);
        } else if (strcmp(verb, "close") == 0) {
            sg_limit *its;
            sg_limiter *closing = another(&its);
            struct work sum = together(its, 20, 1L << 40, "k", closing);
            sg_limit_close(its);
            printf("{\"allowed\": %ld, \"closed\": %ld, \"wrong\": %ld}\n", sum.allowed, sum.closed, sum.wrong);
        } else if (strcmp(verb, "forks") == 0) {
            printf("{\"well\": %ld}\n", forks(count));
        } else {
            printf("{\"calls\": %ld, \"allowed\": %ld}\n", count * 10,
                   together(limit, count, count * 10, "everyone", NULL).allowed);
        }
        fflush(stdout);
    }
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
