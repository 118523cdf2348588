/* load URL PREFIX SPEC ON_OUTAGE TIMEOUT_MS TASKS PAUSE_US KEYS sync: calls all the time, on TASKS threads.
 * What it reads and prints is said in load.py. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sluicegate.h>

struct call {
    long long start, end;
    int key;
    char outcome[24];
};

struct task {
    pthread_t thread;
    int number;
    struct call *calls;
    size_t made, room;
};

static sg_limit *limit;
static int keys;
static long pause_us;
static atomic_bool over;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void *call_all_the_time(void *argument) {
    struct task *task = argument;
    struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};
    for (int key = task->number; !atomic_load(&over);) {
        sg_decision d;
        char name[24];
        if (task->made == task->room) {
            task->room = task->room ? 2 * task->room : 1024;
            task->calls = realloc(task->calls, task->room * sizeof *task->calls);
            if (!task->calls) abort();
        }
        struct call *call = &task->calls[task->made++];
        key = (key + 1) % keys;
        int length = snprintf(name, sizeof name, "key:%d", key);
        call->key = key;
        call->start = now();
        sg_result result = sg_try_acquire(limit, name, (size_t)length, 1, &d);
        call->end = now();
        if (result == SG_OK)
            snprintf(call->outcome, sizeof call->outcome, "%s%s", d.allowed ? "" : "-", sg_source_name((int)d.source));
        else
            snprintf(call->outcome, sizeof call->outcome, "!%s", sg_result_name((int)result));
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static int on_outage(const char *name) {
    const char *names[] = {"share", "allow", "deny", "raise"};
    for (int mode = 0; mode < 4; mode++)
        if (strcmp(name, names[mode]) == 0) return mode;
    return 99;
}

int main(int argc, char **argv) {
    sg_options options;
    sg_limiter *limiter;
    struct task *tasks;
    const char *comma = "";

    if (argc != 10 || strcmp(argv[9], "sync") != 0) return 2;
    sg_options_init(&options);
    options.prefix = argv[2];
    options.on_outage = on_outage(argv[4]);
    options.timeout_us = atol(argv[5]) * 1000;
    int count = atoi(argv[6]);
    pause_us = atol(argv[7]);
    keys = atoi(argv[8]);
    if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK || sg_limit_open(limiter, "load", argv[3], &limit) != SG_OK) {
        fprintf(stderr, "%s\n", sg_last_error_message());
        return 1;
    }
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    tasks = calloc((size_t)count, sizeof *tasks);
    if (!tasks) return 1;
    for (int n = 0; n < count; n++) {
        tasks[n].number = n;
        if (pthread_create(&tasks[n].thread, NULL, call_all_the_time, &tasks[n]) != 0) return 1;
    }
    while (getchar() != EOF) {}
    atomic_store(&over, true);
    for (int n = 0; n < count; n++) pthread_join(tasks[n].thread, NULL);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    putchar('[');
    for (int n = 0; n < count; n++) {
        for (size_t m = 0; m < tasks[n].made; m++) {
            struct call *call = &tasks[n].calls[m];
            printf("%s[%lld,%lld,%d,\"%s\"]", comma, call->start, call->end, call->key, call->outcome);
            comma = ",";
        }
        free(tasks[n].calls);
    }
    puts("]");
    free(tasks);
    return 0;
}
