/* A key of 512 MB is a key: it is read, and not copied. */
#include "check.h"

#include <sys/resource.h>

enum { MEGABYTE = 1 << 20, MEGABYTES = 512, MOST_MEGABYTES = 128 };

int main(void) {
    const size_t length = (size_t)MEGABYTES * MEGABYTE;
    /* Pages that are only read take no memory. */
    char *key = (char *)calloc(length, 1);
    sg_limiter *limiter = open_limiter("memory://", NULL);
    sg_limit *limit = open_limit(limiter, "huge", "1/h");
    struct rusage usage;
    sg_decision d;
    CHECK(key != NULL);
    alarm(120);
    OK(sg_try_acquire(limit, key, length, 1, &d));
    CHECK(d.allowed);
    OK(sg_try_acquire(limit, key, length, 1, &d));
    CHECK(!d.allowed);
    OK(sg_try_acquire(limit, key, length - 1, 1, &d));
    CHECK(d.allowed);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(usage.ru_maxrss / 1024 < MOST_MEGABYTES);
    printf("huge key: 1 passed, %ld MB used\n", usage.ru_maxrss / 1024);
    free(key);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
