/* A C process of the load test: threads that each wait their turn, then send.
 * ./worker URL SPEC IN_FLIGHT */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sluicegate.h>

static int64_t start, end; /* nanoseconds of CLOCK_MONOTONIC */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t *sends;
static size_t count, room;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void request(void) { /* here the request would go out */
  int64_t at = now();
  pthread_mutex_lock(&lock);
  if (count == room) {
    room = room ? 2 * room : 1024;
    sends = realloc(sends, room * sizeof *sends);
    if (!sends) die("out of memory");
  }
  sends[count++] = at;
  pthread_mutex_unlock(&lock);
}

static void *sender(void *limit) {
  sg_decision decision;
  struct timespec until = {.tv_sec = start / 1000000000, .tv_nsec = start % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  for (int64_t left; (left = (end - now()) / 1000) > 0;) {
    if (sg_acquire(limit, "target", 6, 1, left, &decision) != SG_OK) die(sg_last_error_message());
    if (!decision.allowed) break; /* at once, where the turn would come after the end */
    request();
  }
  return NULL;
}

int main(int argc, char **argv) {
  sg_options options;
  sg_limiter *limiter;
  sg_limit *limit;
  sg_decision decision;
  if (argc != 4) return 2;
  sg_options_init(&options);
  options.timeout_us = 5000000;
  options.on_outage = SG_ON_OUTAGE_DENY;
  if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK ||
      sg_limit_open(limiter, "pacing", argv[2], &limit) != SG_OK || sg_peek(limit, "target", 6, &decision) != SG_OK)
    die(sg_last_error_message());
  puts("ready");
  fflush(stdout);
  if (scanf("%" SCNd64 " %" SCNd64, &start, &end) != 2) return 0;

  int in_flight = atoi(argv[3]);
  pthread_t *threads = calloc((size_t)in_flight, sizeof *threads);
  if (!threads) die("out of memory");
  for (int i = 0; i < in_flight; i++)
    if (pthread_create(&threads[i], NULL, sender, limit) != 0) die("can't start a thread");
  for (int i = 0; i < in_flight; i++) pthread_join(threads[i], NULL);
  printf("[");
  for (size_t i = 0; i < count; i++) printf("%s%" PRId64, i ? ", " : "", sends[i]);
  printf("]\n");
  free(threads);
  free(sends);
  sg_limit_close(limit);
  sg_limiter_close(limiter);
  return 0;
}
