/* The smallest event loop: waits for the descriptor of a queue, and collects. */
#ifndef LOOP_H
#define LOOP_H

#include "check.h"

#include <poll.h>

/* Whether there is something to collect, within `ms`. */
static inline bool readable(sg_queue *queue, int ms) {
    struct pollfd watched = {sg_queue_fd(queue), POLLIN, 0};
    CHECK(watched.fd >= 0);
    int ready = poll(&watched, 1, ms);
    CHECK(ready >= 0 && (watched.revents & ~POLLIN) == 0);
    return ready == 1;
}

/* Collects `wanted` completions, up to `capacity` at once. Returns how often it was woken. */
static inline int collect(sg_queue *queue, sg_completion *completions, size_t wanted, size_t capacity) {
    size_t got = 0;
    int wakes = 0;
    while (got < wanted) {
        size_t count = 0, room = wanted - got < capacity ? wanted - got : capacity;
        CHECK(readable(queue, 60000));
        wakes++;
        OK(sg_queue_collect(queue, completions + got, room, &count));
        CHECK(count <= room);
        got += count;
    }
    return wakes;
}

static inline sg_completion collect_one(sg_queue *queue) {
    sg_completion completion;
    collect(queue, &completion, 1, 1);
    return completion;
}

#endif
