/* many_keys MAX_KEYS DISTINCT SPEC: takes once for each of so many keys, in memory, and then once more
 * for some of them.
 *
 * Prints as JSON: how many were admitted first and again, how many keys are kept, how many calls found no
 * room, and the kilobytes that the process had before and has afterwards. */
#include <inttypes.h>
#include <sluicegate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                                    \
    if ((call) != SG_OK) {                                          \
        fprintf(stderr, "%s: %s\n", #call, sg_last_error_message()); \
        return 1;                                                   \
    }

static long resident_kb(void) {
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld kB", &kb) == 1) break;
    if (file != NULL) fclose(file);
    return kb;
}

int main(int count, char **arguments) {
    sg_limiter *limiter;
    sg_limit *limit;
    sg_options options;
    sg_limiter_status status;
    sg_decision decision;
    long admitted[2] = {0, 0};
    if (count != 4) return 2;
    const long distinct = atol(arguments[2]);
    OK(sg_options_init(&options));
    options.max_keys = atol(arguments[1]);
    OK(sg_limiter_open("memory://", &options, &limiter));
    OK(sg_limit_open(limiter, "many", arguments[3], &limit));
    const long before = resident_kb();
    for (int round = 0; round < 2; round++) {
        for (long number = 0; number < distinct; number += round == 0 ? 1 : 7) {
            char key[32];
            const int length = snprintf(key, sizeof key, "user:%010ld", number);
            OK(sg_try_acquire(limit, key, (size_t)length, 1, &decision));
            admitted[round] += decision.allowed;
        }
    }
    const long after = resident_kb();
    OK(sg_status(limiter, &status));
    printf("{\"first\": %ld, \"again\": %ld, \"kept\": %" PRId64 ", \"no_room\": %" PRId64
           ", \"before_kb\": %ld, \"after_kb\": %ld}\n",
           admitted[0], admitted[1], status.local_keys, status.refused_full, before, after);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
