/* listener URL: prints what is told, until the store is back. */
#include <stdio.h>
#include <unistd.h>

#include <sluicegate.h>

static void tell(const sg_event *event, void *user_data) {
    int *done = user_data;
    char byte = 1;
    printf("%s\n", sg_event_kind_name(event->kind));
    fflush(stdout);
    if (event->kind == SG_EVENT_BACK && write(done[1], &byte, 1) != 1) _exit(1);
}

int main(int argc, char **argv) {
    sg_options options;
    sg_limiter *limiter;
    int done[2];
    char byte;

    if (argc != 2 || pipe(done) != 0) return 2;
    sg_options_init(&options);
    options.timeout_us = 5000000;
    options.on_event = tell;
    options.user_data = done;
    if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK) return 1;
    if (read(done[0], &byte, 1) != 1) return 1;
    sg_limiter_close(limiter);
    return 0;
}
