/* cc quickstart.c $(pkg-config --cflags --libs sluicegate) && ./a.out redis://localhost:6379 */
#include <sluicegate.h>
#include <stdio.h>

int main(int argc, char **argv) {
    sg_limiter *limiter; sg_limit *login; sg_decision d;
    if (sg_limiter_open(argc > 1 ? argv[1] : "memory://", NULL, &limiter) != SG_OK) return puts(sg_last_error_message()), 1;
    if (sg_limit_open(limiter, "login", "100/s burst 200", &login) != SG_OK) return puts(sg_last_error_message()), 1;
    if (sg_try_acquire(login, "user:42", 7, 1, &d) != SG_OK) return puts(sg_last_error_message()), 1;
    if (d.allowed) printf("welcome: %lld of %lld left, says %s\n", (long long)d.remaining, (long long)d.limit, sg_source_name(d.source));
    else printf("too many: again in %lld us\n", (long long)d.retry_after);
    sg_limit_close(login);
    sg_limiter_close(limiter);
    return 0;
}
