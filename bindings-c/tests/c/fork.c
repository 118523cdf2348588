/* After a fork, parent and child both go on with the handles they have. */
#include "check.h"

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

int main(void) {
    const char *list[2];
    int count = urls(list);
    alarm(120);
    for (int i = 0; i < count; i++) {
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
