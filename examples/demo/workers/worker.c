/* A C process of the demo: ./worker URL SPEC CALLS_PER_SECOND */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sluicegate.h>

#define SOURCES 5
#define MOST 4096 /* admissions between two lines */

static struct {
  double since, longest;
  struct { double start, end; int source; } admitted[MOST];
  int admissions, refused[SOURCES], errors;
  char error[200];
} report;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fresh_report(void) {
  memset(&report, 0, sizeof report);
  report.since = now();
}

static void flush_report(void) {
  printf("{\"from\": %.6f, \"to\": %.6f, \"admitted\": [", report.since, now());
  for (int i = 0; i < report.admissions; i++)
    printf("%s[%.6f, %.6f, \"%s\"]", i ? ", " : "", report.admitted[i].start, report.admitted[i].end,
           sg_source_name(report.admitted[i].source));
  printf("], \"refused\": {");
  for (int i = 0, some = 0; i < SOURCES; i++)
    if (report.refused[i]) printf("%s\"%s\": %d", some++ ? ", " : "", sg_source_name(i), report.refused[i]);
  printf("}, \"errors\": %d, \"error\": ", report.errors);
  if (report.errors) {
    putchar('"');
    for (const char *c = report.error; *c; c++) putchar(*c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c);
    putchar('"');
  } else {
    printf("null");
  }
  printf(", \"longest_ms\": %.3f}\n", report.longest * 1000);
  fflush(stdout);
  fresh_report();
}

static void call(sg_limit *limit) {
  sg_decision decision;
  double started = now();
  int code = sg_try_acquire(limit, "everyone", 8, 1, &decision);
  double ended = now();
  if (ended - started > report.longest) report.longest = ended - started;
  if (code != SG_OK) {
    report.errors++;
    snprintf(report.error, sizeof report.error, "%s", sg_last_error_message());
  } else if (!decision.allowed) {
    report.refused[decision.source]++;
  } else {
    if (report.admissions == MOST) flush_report();
    int i = report.admissions++;
    report.admitted[i].start = started;
    report.admitted[i].end = ended;
    report.admitted[i].source = (int)decision.source;
  }
}

/* Waits up to `ms`; true at the end of the input, which also comes when the demo dies. */
static int input_ended(int ms) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  char byte;
  return poll(&in, 1, ms) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  sg_limiter *limiter;
  sg_limit *limit;
  if (sg_limiter_open(argv[1], NULL, &limiter) != SG_OK || sg_limit_open(limiter, "demo", argv[2], &limit) != SG_OK) {
    fprintf(stderr, "%s\n", sg_last_error_message());
    return 1;
  }
  int pause_ms = (int)(1000 / atof(argv[3]));
  char line[16];
  puts("{\"ready\": true}");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 0; /* the word to go */
  fresh_report();
  while (!input_ended(pause_ms)) {
    call(limit);
    if (now() - report.since >= 0.2) flush_report();
  }
  sg_limit_close(limit);
  sg_limiter_close(limiter);
  flush_report();
  return 0;
}
