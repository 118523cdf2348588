/*
 * Runs the scenarios of the files that are named as arguments, on each store. After "--queue" each
 * call is submitted and collected instead. tests/scenarios/README.md says what they mean.
 */
#include "loop.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>

enum { MOST_LIMITS = 32, MOST_PERMITS = 64, MOST_ENTRIES = 128 };

/* One scenario on one store. */
struct run {
    const char *url;
    sg_limiter *limiter;
    sg_manual_clock *clock;
    /* NULL where the calls block. */
    sg_queue *queue;
    sg_limit *limits[MOST_LIMITS];
    int opened;
    sg_permit *permits[MOST_PERMITS];
    const char *labels[MOST_PERMITS];
    int held;
    char problem[600];
    /* The last that came out of the queue. */
    sg_completion collected;
};

/* Waits for the call that was just submitted, if it was. */
static sg_result finished(struct run *run, sg_result submitted) {
    memset(&run->collected, 0, sizeof run->collected);
    if (submitted != SG_OK) return submitted;
    run->collected = collect_one(run->queue);
    CHECK(run->collected.tag == 7);
    return run->collected.result;
}

/* Notes what is wrong with the scenario; false, for the caller to return. */
static bool wrong(struct run *run, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(run->problem, sizeof run->problem, format, list);
    va_end(list);
    return false;
}

/* Whether C can say the number; the file's numbers are exact as doubles. */
static bool whole(const json_t *value, int64_t *number) {
    double real = json_number_value(value);
    if (real != floor(real) || real < -9223372036854775808.0 || real >= 9223372036854775808.0) return false;
    *number = (int64_t)real;
    return true;
}

static const char *text(const json_t *step, const char *field, const char *otherwise) {
    const json_t *value = json_object_get(step, field);
    return value == NULL ? otherwise : json_string_value(value);
}

/* The place of the limit of that name, or the next free one. */
static sg_limit **find_limit(struct run *run, const char *name) {
    int i = 0;
    while (i < run->opened && strcmp(sg_limit_name(run->limits[i]), name) != 0) i++;
    CHECK(i < MOST_LIMITS);
    return &run->limits[i];
}

/* Opens a limit; an older one of that name is closed, and its state stays. */
static sg_result respec(struct run *run, const char *name, const char *spec) {
    sg_limit *limit = NULL, **place = find_limit(run, name);
    sg_result result = sg_limit_open(run->limiter, name, spec, &limit);
    if (result != SG_OK) return result;
    if (*place == NULL) run->opened++;
    sg_limit_close(*place);
    *place = limit;
    return SG_OK;
}

static bool compare(struct run *run, const char *field, const json_t *expected, int64_t got) {
    int64_t number = -1;
    if (json_is_boolean(expected)) number = json_is_true(expected);
    else if (!json_is_null(expected) && !whole(expected, &number)) return wrong(run, "%s: no whole number", field);
    if (number == got) return true;
    return wrong(run, "%s: expected %lld, got %lld", field, (long long)number, (long long)got);
}

static bool as_expected(struct run *run, json_t *expect, const sg_decision *d) {
    const char *field;
    json_t *expected;
    if (!from_store(d, run->url)) return wrong(run, "source: got %s", sg_source_name(d->source));
    json_object_foreach(expect, field, expected) {
        int64_t got;
        if (strcmp(field, "allowed") == 0) got = d->allowed;
        else if (strcmp(field, "limit") == 0) got = d->limit;
        else if (strcmp(field, "remaining") == 0) got = d->remaining;
        else if (strcmp(field, "retry_after_us") == 0) got = d->retry_after;
        else if (strcmp(field, "reset_after_us") == 0) got = d->reset_after;
        else if (strcmp(field, "wait_us") == 0) got = d->wait;
        else return wrong(run, "unknown field %s", field);
        if (!compare(run, field, expected, got)) return false;
    }
    return true;
}

static bool failed_as_expected(struct run *run, const json_t *step, sg_result result) {
    const char *kind = text(step, "error", "ok"), *words = text(step, "error_contains", "");
    const char *message = result == SG_OK ? "" : sg_last_error_message();
    if (run->collected.message != NULL) message = run->collected.message;
    if (strcmp(sg_result_name(result), kind) == 0 && strstr(message, words) != NULL) return true;
    return wrong(run, "expected %s \"..%s..\", got %s \"%s\"", kind, words, sg_result_name(result), message);
}

static bool take_all(struct run *run, const json_t *step) {
    sg_entry entries[MOST_ENTRIES];
    sg_decision decision;
    json_t *list = json_object_get(step, "entries"), *expected = json_object_get(step, "expect"), *item;
    size_t index, count = json_array_size(list);
    if (count > MOST_ENTRIES) return wrong(run, "too many entries for this runner");
    json_array_foreach(list, index, item) {
        json_t *key = json_array_get(item, 1);
        entries[index].limit = *find_limit(run, json_string_value(json_array_get(item, 0)));
        entries[index].key = json_string_value(key);
        entries[index].key_len = json_string_length(key);
        if (!whole(json_array_get(item, 2), &entries[index].cost)) return true;
    }
    sg_result result;
    if (run->queue == NULL) {
        result = sg_try_acquire_all(run->limiter, entries, count, &decision);
    } else {
        result = finished(run, sg_submit_try_acquire_all(run->queue, run->limiter, entries, count, 7));
        decision = run->collected.decision;
    }
    if (!failed_as_expected(run, step, result)) return false;
    return result != SG_OK || as_expected(run, expected, &decision);
}

/* Keeps a permit under its label until it is released or the scenario ends. */
static bool keep(struct run *run, const json_t *step, const sg_decision *d, sg_permit *permit) {
    if ((permit != NULL) != d->allowed) return wrong(run, "a permit and the decision disagree");
    if (permit == NULL) return true;
    if (run->held == MOST_PERMITS) return sg_release(permit), wrong(run, "too many permits for this runner");
    run->permits[run->held] = permit;
    run->labels[run->held++] = text(step, "as", "");
    return true;
}

static bool release(struct run *run, const char *label) {
    for (int i = 0; i < run->held; i++) {
        if (strcmp(run->labels[i], label) == 0) {
            /* C frees a permit with its release, so it can't release it twice: NULL does nothing. */
            sg_release(run->permits[i]);
            run->permits[i] = NULL;
            return true;
        }
    }
    return wrong(run, "no permit is called %s", label);
}

/* The same verbs, submitted and collected. False where there is no such verb. */
static bool submit(struct run *run, const char *verb, sg_limit *limit, const char *key, size_t length, int64_t cost,
                   int64_t wait, sg_result *result) {
    sg_queue *queue = run->queue;
    if (strcmp(verb, "try_acquire") == 0) *result = sg_submit_try_acquire(queue, limit, key, length, cost, 7);
    else if (strcmp(verb, "acquire") == 0) *result = sg_submit_acquire(queue, limit, key, length, cost, wait, 7);
    else if (strcmp(verb, "reserve") == 0) *result = sg_submit_reserve(queue, limit, key, length, cost, wait, 7);
    else if (strcmp(verb, "peek") == 0) *result = sg_submit_peek(queue, limit, key, length, 7);
    else if (strcmp(verb, "refund") == 0) *result = sg_submit_refund(queue, limit, key, length, cost, 7);
    else if (strcmp(verb, "hold") == 0) *result = sg_submit_hold(queue, limit, key, length, wait, 7);
    else if (strcmp(verb, "reset") == 0) *result = sg_submit_reset(queue, limit, key, length, 7);
    else return false;
    *result = finished(run, *result);
    return true;
}

/* One call of the verbs that take a limit and a key. */
static bool call(struct run *run, const char *verb, const json_t *step, bool last) {
    sg_limit *limit = *find_limit(run, text(step, "limit", "main"));
    const json_t *named = json_object_get(step, "key"), *given = json_object_get(step, "cost");
    const json_t *timeout = json_object_get(step, "timeout_us"), *longest = json_object_get(step, "max_wait_us");
    const char *key = text(step, "key", "k");
    size_t length = named == NULL ? 1 : json_string_length(named);
    int64_t cost = 1, wait = 0;
    sg_permit *permit = NULL;
    sg_decision d;
    sg_result result;
    json_t *expect;

    if (limit == NULL) return wrong(run, "the scenario has no such limit");
    if (given != NULL && !whole(given, &cost)) return true;
    if (timeout != NULL && !whole(timeout, &wait)) return true;
    if (longest != NULL && !whole(longest, &wait)) return true;
    /* To C, -1 is no bound; only other negative waits are wrong. */
    if ((timeout != NULL || longest != NULL) && wait == -1) return true;

    if (run->queue != NULL) {
        if (!submit(run, verb, limit, key, length, cost, wait, &result)) return wrong(run, "unknown verb %s", verb);
        d = run->collected.decision;
        permit = run->collected.permit;
    }
    else if (strcmp(verb, "try_acquire") == 0) result = sg_try_acquire(limit, key, length, cost, &d);
    else if (strcmp(verb, "acquire") == 0) result = sg_acquire(limit, key, length, cost, wait, &d);
    else if (strcmp(verb, "reserve") == 0) result = sg_reserve(limit, key, length, cost, wait, &d);
    else if (strcmp(verb, "peek") == 0) result = sg_peek(limit, key, length, &d);
    else if (strcmp(verb, "refund") == 0) result = sg_refund(limit, key, length, cost, &d);
    else if (strcmp(verb, "hold") == 0) result = sg_hold(limit, key, length, wait, &d, &permit);
    else if (strcmp(verb, "reset") == 0) result = sg_reset(limit, key, length);
    else return wrong(run, "unknown verb %s", verb);

    if (strcmp(verb, "reset") == 0) return failed_as_expected(run, step, result);
    if (!failed_as_expected(run, step, result)) return false;
    if (result != SG_OK) return true;
    if (strcmp(verb, "hold") == 0 && !keep(run, step, &d, permit)) return false;
    expect = json_object_get(step, "expect_each");
    if (!as_expected(run, expect, &d)) return false;
    expect = last ? json_object_get(step, "expect") : NULL;
    return as_expected(run, expect, &d);
}

static bool take_step(struct run *run, const json_t *step) {
    const char *verb = text(step, "verb", NULL);
    int64_t move = 0, times = 1;
    memset(&run->collected, 0, sizeof run->collected);
    if (!whole(json_object_get(step, "advance_us"), &move)) return wrong(run, "advance_us is not whole");
    if (move > 0) OK(sg_manual_clock_advance(run->clock, move));
    if (move < 0) OK(sg_manual_clock_set(run->clock, sg_manual_clock_now(run->clock) + move));
    if (verb == NULL) return true;
    if (strcmp(verb, "release") == 0) return release(run, text(step, "permit", ""));
    if (strcmp(verb, "try_acquire_all") == 0) return take_all(run, step);
    if (strcmp(verb, "respec") == 0) {
        return failed_as_expected(run, step, respec(run, text(step, "limit", "main"), text(step, "spec", "")));
    }
    if (json_object_get(step, "times") != NULL && !whole(json_object_get(step, "times"), &times)) return wrong(run, "times");
    for (int64_t i = 1; i <= times; i++) {
        if (!call(run, verb, step, i == times)) {
            size_t end = strlen(run->problem);
            if (times > 1) snprintf(run->problem + end, sizeof run->problem - end, " (call %lld)", (long long)i);
            return false;
        }
    }
    return true;
}

static bool play(struct run *run, json_t *scenario) {
    const char *name;
    json_t *value, *steps = json_object_get(scenario, "steps");
    size_t index;
    json_object_foreach(json_object_get(scenario, "limits"), name, value) {
        if (respec(run, name, json_string_value(value)) != SG_OK) return wrong(run, "%s", sg_last_error_message());
    }
    json_array_foreach(steps, index, value) {
        if (!take_step(run, value)) {
            size_t end = strlen(run->problem);
            snprintf(run->problem + end, sizeof run->problem - end, ", in step %d", (int)index + 1);
            return false;
        }
    }
    return true;
}

static bool run_scenario(const char *url, const char *file, json_t *scenario, bool queued) {
    const char *base = strrchr(file, '/');
    struct run run;
    memset(&run, 0, sizeof run);
    run.url = url;
    OK(sg_manual_clock_new(-1, &run.clock));
    run.limiter = open_limiter(url, run.clock);
    if (queued) OK(sg_queue_open(&run.queue));
    bool passed = play(&run, scenario);
    printf("%s %s %s: %s\n", passed ? "ok  " : "FAIL", store(url), base == NULL ? file : base + 1,
           text(scenario, "name", "?"));
    if (!passed) printf("     %s\n", run.problem);
    for (int i = 0; i < run.held; i++) sg_release(run.permits[i]);
    for (int i = 0; i < run.opened; i++) sg_limit_close(run.limits[i]);
    sg_queue_close(run.queue);
    sg_limiter_close(run.limiter);
    sg_manual_clock_free(run.clock);
    return passed;
}

int main(int argc, char **argv) {
    const char *list[2];
    int count = urls(list), passed = 0, failed = 0;
    bool queued = argc > 1 && strcmp(argv[1], "--queue") == 0;
    alarm(600);
    for (int i = queued ? 2 : 1; i < argc; i++) {
        json_error_t error;
        json_t *file = json_load_file(argv[i], JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
        json_t *scenarios = json_object_get(file, "scenarios"), *scenario;
        size_t index;
        if (json_array_size(scenarios) == 0) {
            fprintf(stderr, "%s:%d: %s\n", argv[i], file == NULL ? error.line : 1, file == NULL ? error.text : "no scenarios");
            return 1;
        }
        json_array_foreach(scenarios, index, scenario) {
            for (int s = 0; s < count; s++) {
                if (run_scenario(list[s], argv[i], scenario, queued)) passed++;
                else failed++;
            }
        }
        json_decref(file);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
