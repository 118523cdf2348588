/*
 * Sluicegate: one rate limit, shared by every process that names it, whatever its language.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions return an sg_result; SG_OK is 0. On any other result sg_last_error_message() says what
 * was wrong and what is allowed, and no out-parameter was written. Being over a limit is no error:
 * it is SG_OK with a decision whose `allowed` is false.
 *
 * All durations are whole microseconds. Texts are UTF-8 and end with a NUL; keys are bytes with a
 * length. A NULL pointer where this header does not allow one is SG_ERR_ARGUMENT.
 *
 * Functions may be called from any thread, and on one limiter from many threads at once; a handle
 * must not be used while or after it is closed. After a fork, parent and child both go on with the
 * handles they have.
 *
 * The verbs wait for the store, up to the budget of a decision, and sg_acquire and sg_hold for their
 * turn. A program with an event loop, which must not wait, submits them to an sg_queue. For C++ there
 * is sluicegate.hpp.
 */

#ifndef SLUICEGATE_H
#define SLUICEGATE_H

/* Generated from bindings-c/src by `make header`; do not edit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Marks every option of an sg_options as not set: call sg_options_init(&options) before setting
 * fields. SG_ERR_ARGUMENT where the pointer is NULL.
 */
#define sg_options_init(options) sg_options_init_sized((options), sizeof(sg_options))

/**
 * The Content-Type of what sg_http_problem writes.
 */
#define SG_HTTP_PROBLEM_CONTENT_TYPE "application/problem+json"


/**
 * The status of a refusal: 429, Too Many Requests.
 */
#define SG_HTTP_STATUS 429

/**
 * A buffer of this size holds every key that sg_client_address_key writes.
 */
#define SG_CLIENT_ADDRESS_KEY_SIZE 64

/**
 * What came of a call. The numbers never change meaning.
 */
enum sg_result
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The call was made; its out-parameters are written.
     */
    SG_OK = 0,
    /**
     * The text of a spec can't be read or can't be met: correct the spec.
     */
    SG_ERR_SPEC = 1,
    /**
     * An argument is NULL or out of range: correct the call.
     */
    SG_ERR_ARGUMENT = 2,
    /**
     * A URL or an option of the limiter is wrong: correct the configuration.
     */
    SG_ERR_CONFIG = 3,
    /**
     * The verb has no meaning for the limit's algorithm: use another verb or algorithm.
     */
    SG_ERR_UNSUPPORTED = 4,
    /**
     * The store is away and the limit says SG_ON_OUTAGE_RAISE: try later, or choose another mode.
     */
    SG_ERR_OUTAGE = 5,
    /**
     * The limiter was closed: open another.
     */
    SG_ERR_CLOSED = 6,
    /**
     * A defect in Sluicegate itself: report it.
     */
    SG_ERR_INTERNAL = 7,
    /**
     * The queue holds as many calls as it may: collect, then submit again.
     */
    SG_ERR_FULL = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sg_result sg_result;
#else
typedef int32_t sg_result;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Whether decisions are made by the store.
 */
enum sg_store_state
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The first connection is being made; calls wait for it within their budget.
     */
    SG_STORE_CONNECTING = 0,
    /**
     * The store decides.
     */
    SG_STORE_UP = 1,
    /**
     * The store is away, and calls are decided here.
     */
    SG_STORE_OUT = 2,
    /**
     * The limiter was closed.
     */
    SG_STORE_CLOSED = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sg_store_state sg_store_state;
#else
typedef int32_t sg_store_state;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Where a decision was made.
 */
enum sg_source
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * By the shared store.
     */
    SG_SOURCE_REDIS = 0,
    /**
     * By this process's memory, because the limiter was opened on "memory://".
     */
    SG_SOURCE_MEMORY = 1,
    /**
     * By a borrowed part of the limit, without asking the store.
     */
    SG_SOURCE_LEASE = 2,
    /**
     * By the memory of a refusal a moment ago.
     */
    SG_SOURCE_DENY_CACHE = 3,
    /**
     * Here, because the store was away.
     */
    SG_SOURCE_OUTAGE = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sg_source sg_source;
#else
typedef int32_t sg_source;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What a limit does while the store can't be reached.
 */
enum sg_on_outage
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Each process decides by its share of the limit; the shares add up to the limit.
     */
    SG_ON_OUTAGE_SHARE = 0,
    /**
     * Everything is admitted.
     */
    SG_ON_OUTAGE_ALLOW = 1,
    /**
     * Everything is refused.
     */
    SG_ON_OUTAGE_DENY = 2,
    /**
     * Calls fail with SG_ERR_OUTAGE.
     */
    SG_ON_OUTAGE_RAISE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sg_on_outage sg_on_outage;
#else
typedef int32_t sg_on_outage;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * What changed.
 */
enum sg_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The store decides, for the first time.
     */
    SG_EVENT_UP = 0,
    /**
     * The store is away; calls are decided here.
     */
    SG_EVENT_OUT = 1,
    /**
     * The store decides again.
     */
    SG_EVENT_BACK = 2,
    /**
     * Calls on new keys are refused because the table of keys is full. Told once a minute at most.
     */
    SG_EVENT_FULL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sg_event_kind sg_event_kind;
#else
typedef int32_t sg_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Turns a request's peer and header into a key that says who the client is, and that a client can't
 * choose.
 *
 * A proxy that is trusted says in a header from whom it got the request. The header is read from its
 * end, one hop after the other, for as long as the hop that said it is trusted; the first address that
 * is not is the client. Without trusted proxies no header is read.
 */
typedef struct sg_client_address sg_client_address;

/**
 * A name plus a spec: what keys are held to.
 */
typedef struct sg_limit sg_limit;

/**
 * A store, its connections and its limits: what a process opens once.
 */
typedef struct sg_limiter sg_limiter;

/**
 * A clock that stands still until it is moved, for tests of code that uses limits.
 *
 * Give it to sg_options.clock. A limiter on Redis sends its time along instead of letting Redis
 * use its own, so all limiters of a test should share one clock.
 */
typedef struct sg_manual_clock sg_manual_clock;

/**
 * A permit of a concurrency limit.
 *
 * It is renewed every third of the limit's `ttl` while it is held. A process that dies holding it
 * loses it `ttl` after the last renewal. With a manual clock nothing is renewed by itself.
 */
typedef struct sg_permit sg_permit;

/**
 * Calls that are under way, for a program with an event loop of its own: submit calls, poll the
 * descriptor of sg_queue_fd, and collect what has finished. None of this waits for anything.
 *
 * A program has one for each event loop. Any limits of any limiters may be used with it.
 * Functions that take a queue may be called from any thread, but it is collected by one thread at
 * a time.
 *
 * After a fork, the calls under way stay with the parent. The child's queue is empty and has a
 * descriptor of its own: ask sg_queue_fd for it.
 */
typedef struct sg_queue sg_queue;

/**
 * A change of a limiter's.
 */
typedef struct sg_event {
    /**
     * What changed: one of sg_event_kind; later versions may add some.
     */
    int32_t kind;
    /**
     * When: microseconds since the Unix epoch.
     */
    int64_t at_us;
    /**
     * What a log says of it, with the reason, without secrets. Valid during the call.
     */
    const char *message;
} sg_event;

/**
 * What sg_options.on_event is.
 */
typedef void (*sg_event_callback)(const struct sg_event *event, void *user_data);

/**
 * The options of a limiter. sg_options_init marks all of them as not set; then set what you need.
 */
typedef struct sg_options {
    /**
     * Set by sg_options_init: which fields this struct has. Later versions may add some.
     */
    size_t struct_size;
    /**
     * What all keys in Redis begin with: 1 to 128 bytes without braces or spaces. Limiters with
     * one URL and prefix share their limits. NULL is not set: "sg".
     */
    const char *prefix;
    /**
     * The time budget of a decision: 1,000 (1 ms) to 60,000,000 (1 minute). A call that Redis has
     * not answered by then is decided here, as `on_outage` says. -1 is not set: 100 ms.
     */
    int64_t timeout_us;
    /**
     * How long at most a refusal is remembered, so that a flood of refused calls needs no network:
     * 0 (off) to 60,000,000 (1 minute). -1 is not set: 100 ms.
     */
    int64_t deny_cache_us;
    /**
     * The bound of each table of keys that this process keeps: 64 to 2^32. A full table drops keys
     * that are as good as fresh, and refuses new ones where there is none. -1 is not set: 1,000,000.
     */
    int64_t max_keys;
    /**
     * What to do when the store can't be reached: one of sg_on_outage. -1 is not set:
     * SG_ON_OUTAGE_SHARE.
     */
    int32_t on_outage;
    /**
     * A clock that is moved by hand, for tests. NULL is not set: the machine's own, and Redis's
     * own there. It may be freed before the limiter is closed.
     */
    const struct sg_manual_clock *clock;
    /**
     * Is told when something changes: the first connection, the store away and back, a table of keys
     * that is full. It is called on a thread of the library's that does nothing else, one event after
     * the other; it may take its time and call the library, but must not throw. sg_limiter_close waits
     * until it has returned, after which it is not called any more. A forked child calls it too, for
     * its own events. NULL is not set.
     */
    sg_event_callback on_event;
    /**
     * What `on_event` gets with each event. It must be there until the limiter is closed.
     */
    void *user_data;
    /**
     * How many calls of this process may wait for one server's answer: 64 to 2^32. More are decided
     * here at once, as `on_outage` says. -1 is not set: 100,000.
     */
    int64_t max_waiting;
} sg_options;

/**
 * A limiter's state at a moment.
 */
typedef struct sg_limiter_status {
    /**
     * Whether the store decides. A limiter on "memory://" is always up.
     */
    sg_store_state state;
    /**
     * Since when: microseconds since the Unix epoch.
     */
    int64_t since_us;
    /**
     * How many processes share this limiter's URL and prefix, this one among them, as far as is
     * known. 0 before the first heartbeat.
     */
    int64_t processes;
    /**
     * This process's place among them, from 0: it decides who gets the remainder of a share.
     */
    int64_t rank;
    /**
     * Keys whose state this process keeps.
     */
    int64_t local_keys;
    /**
     * Calls on new keys that were refused because the table of keys was full.
     */
    int64_t refused_full;
    /**
     * Keys whose refusal is remembered.
     */
    int64_t deny_cache_keys;
    /**
     * What went wrong last, without secrets; "" if nothing has. Cut off where it is too long.
     */
    char last_error[256];
} sg_limiter_status;

/**
 * One of the limits that sg_try_acquire_all takes from.
 */
typedef struct sg_entry {
    /**
     * A limit of the limiter.
     */
    const struct sg_limit *limit;
    /**
     * Who is limited: bytes, not empty.
     */
    const void *key;
    /**
     * How many bytes `key` has.
     */
    size_t key_len;
    /**
     * Units to take: 0 to 2^53.
     */
    int64_t cost;
} sg_entry;

/**
 * The answer to one call. All durations are whole microseconds.
 */
typedef struct sg_decision {
    /**
     * Whether the call may go on.
     */
    bool allowed;
    /**
     * Where the decision was made.
     */
    sg_source source;
    /**
     * The most that can pass at once: the burst, the count, or the number of permits.
     */
    int64_t limit;
    /**
     * What is left for others after this call.
     */
    int64_t remaining;
    /**
     * When the same cost would be admitted if nobody else comes: refused strictly before it,
     * admitted exactly at it. -1 when allowed, and when the cost can never fit.
     */
    int64_t retry_after;
    /**
     * When the state will be as if the key had never been used.
     */
    int64_t reset_after;
    /**
     * How long to wait before going on. 0 unless the decision comes from sg_reserve.
     */
    int64_t wait;
    /**
     * Which limit of the spec the numbers are of, from 0: refused, the one with the longest wait;
     * allowed, the one with the least remaining.
     */
    int32_t rule;
} sg_decision;

/**
 * A call that has finished.
 */
typedef struct sg_completion {
    /**
     * As it was given when the call was submitted.
     */
    uint64_t tag;
    /**
     * What came of the call: SG_OK, or SG_ERR_OUTAGE, SG_ERR_CLOSED or SG_ERR_INTERNAL.
     */
    sg_result result;
    /**
     * The decision. Where there is none, as `result` is not SG_OK or the call was sg_submit_reset,
     * `retry_after` is -1 and the rest zero.
     */
    struct sg_decision decision;
    /**
     * Of sg_submit_hold: the permit, which sg_release gives back; else NULL, and also where the
     * decision refuses.
     */
    struct sg_permit *permit;
    /**
     * What was wrong, until this queue is next collected or closed; NULL where `result` is SG_OK.
     */
    const char *message;
} sg_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What sg_options_init calls with the size that the caller was compiled with.
 *
 * SG_ERR_ARGUMENT where `options` is NULL or the size is not that of any version's struct.
 */
sg_result sg_options_init_sized(struct sg_options *options, size_t struct_size);

/**
 * Names a kind of event: "up", "out", "back" or "full"; "unknown" for any other number. Never NULL,
 * valid for ever.
 */
const char *sg_event_kind_name(int32_t kind);

/**
 * Opens a limiter. It waits for nothing: one that is opened while Redis is down decides in outage
 * mode, and joins when Redis comes.
 *
 * `url` is one of redis://, rediss://, redis+unix://, redis+cluster://h:p,h:p,
 * redis+sentinel://h:p,h:p/master and memory://. `options` may be NULL: nothing is set.
 * sg_limiter_close closes what is written to `limiter`.
 *
 * SG_ERR_CONFIG for a bad URL or option, SG_ERR_ARGUMENT for a duration out of range or options
 * that sg_options_init has not seen.
 */
sg_result sg_limiter_open(const char *url,
                          const struct sg_options *options,
                          struct sg_limiter **limiter);

/**
 * Leaves the store, closes the connections and frees the limiter. Its limits stay to be closed;
 * calls on them give SG_ERR_CLOSED. Calls that are under way are still answered. NULL is allowed.
 */
void sg_limiter_close(struct sg_limiter *limiter);

/**
 * Says what a limiter knows of its store and of itself.
 */
sg_result sg_status(const struct sg_limiter *limiter, struct sg_limiter_status *status);

/**
 * Takes from several limits or from none, in one atomic step. The one decision speaks for the limit
 * with the longest wait where it refuses, and for the one with the least remaining where it allows.
 *
 * SG_ERR_ARGUMENT for a bad cost or key, no entry or more than 64, one that names a limit and key
 * twice, or a limit of another limiter; SG_ERR_UNSUPPORTED for a concurrency limit; SG_ERR_OUTAGE;
 * SG_ERR_CLOSED.
 */
sg_result sg_try_acquire_all(const struct sg_limiter *limiter,
                             const struct sg_entry *entries,
                             size_t count,
                             struct sg_decision *decision);

/**
 * Opens a limit: a `name`, shared by all processes that use it, and a `spec` such as
 * "100/s burst 200". The same name and spec may be opened any number of times and are the same
 * limit. sg_limit_close closes what is written to `limit`.
 *
 * SG_ERR_SPEC for a spec that can't be read or met, SG_ERR_ARGUMENT for an empty, overlong or
 * unprintable name.
 */
sg_result sg_limit_open(const struct sg_limiter *limiter,
                        const char *name,
                        const char *spec,
                        struct sg_limit **limit);

/**
 * Opens a limit with its own behaviour in an outage: one of sg_on_outage.
 *
 * As sg_limit_open; SG_ERR_CONFIG for another `on_outage`.
 */
sg_result sg_limit_open_on_outage(const struct sg_limiter *limiter,
                                  const char *name,
                                  const char *spec,
                                  int32_t on_outage,
                                  struct sg_limit **limit);

/**
 * Frees a limit; what it has counted stays. It may be closed before or after its limiter. NULL is
 * allowed.
 */
void sg_limit_close(struct sg_limit *limit);

/**
 * A limit's name. Valid until the limit is closed; NULL where `limit` is.
 */
const char *sg_limit_name(const struct sg_limit *limit);

/**
 * A limit's spec in its one canonical text. Valid until the limit is closed; NULL where `limit` is.
 */
const char *sg_limit_spec(const struct sg_limit *limit);

/**
 * Decides now, in one round trip at most. `key` says who is limited: bytes, not empty; `cost` how
 * many units to take: 0 to 2^53, where 0 is allowed and changes nothing.
 *
 * SG_ERR_ARGUMENT for an empty key or a cost out of range, SG_ERR_UNSUPPORTED for a concurrency
 * limit, SG_ERR_OUTAGE under SG_ON_OUTAGE_RAISE, SG_ERR_CLOSED.
 */
sg_result sg_try_acquire(const struct sg_limit *limit,
                         const void *key,
                         size_t key_len,
                         int64_t cost,
                         struct sg_decision *decision);

/**
 * Waits its turn, first come first served, and gives up at once when the wait would be longer than
 * `timeout_us`: 0 to 366 days, or -1 for no bound. A caller that gives up gets a decision that
 * refuses.
 *
 * token-bucket, gcra and leaky-bucket keep the order over all processes. The other algorithms
 * can't reserve: there, callers wait for `retry_after` with jitter.
 *
 * As sg_try_acquire; SG_ERR_ARGUMENT also for a timeout out of range.
 */
sg_result sg_acquire(const struct sg_limit *limit,
                     const void *key,
                     size_t key_len,
                     int64_t cost,
                     int64_t timeout_us,
                     struct sg_decision *decision);

/**
 * Takes the turn, if it comes within `max_wait_us` (0 to 366 days, or -1 for no bound), and says
 * in the decision's `wait` how long to wait for it. sg_refund gives it back.
 *
 * As sg_acquire; SG_ERR_UNSUPPORTED for algorithms other than token-bucket, gcra and leaky-bucket.
 */
sg_result sg_reserve(const struct sg_limit *limit,
                     const void *key,
                     size_t key_len,
                     int64_t cost,
                     int64_t max_wait_us,
                     struct sg_decision *decision);

/**
 * Says whether a cost of 1 would pass now, and changes nothing.
 *
 * As sg_try_acquire, but a concurrency limit can be looked at.
 */
sg_result sg_peek(const struct sg_limit *limit,
                  const void *key,
                  size_t key_len,
                  struct sg_decision *decision);

/**
 * Gives back `cost` units, 0 to 2^53, never above the capacity. The decision tells the state after;
 * `decision` may be NULL.
 *
 * As sg_try_acquire.
 */
sg_result sg_refund(const struct sg_limit *limit,
                    const void *key,
                    size_t key_len,
                    int64_t cost,
                    struct sg_decision *decision);

/**
 * Forgets the key: it is as if never used.
 *
 * As sg_try_acquire, but a concurrency limit can be reset.
 */
sg_result sg_reset(const struct sg_limit *limit, const void *key, size_t key_len);

/**
 * Takes a permit of a concurrency limit, waiting for one up to `timeout_us`: 0 to 366 days, or -1
 * for no bound. Writes the permit, which sg_release gives back, to `permit`; NULL where the
 * decision refuses.
 *
 * As sg_acquire; SG_ERR_UNSUPPORTED where the spec has no concurrency limit.
 */
sg_result sg_hold(const struct sg_limit *limit,
                  const void *key,
                  size_t key_len,
                  int64_t timeout_us,
                  struct sg_decision *decision,
                  struct sg_permit **permit);

/**
 * Gives a permit back and frees it. It waits for nothing. NULL is allowed.
 */
void sg_release(struct sg_permit *permit);

/**
 * Opens a queue. sg_queue_close closes what is written to `queue`.
 *
 * SG_ERR_INTERNAL where the system has no more descriptors.
 */
sg_result sg_queue_open(struct sg_queue **queue);

/**
 * Gives up the calls that are under way and frees the queue: turns that have not come and permits
 * that were not collected are given back, decisions that are under way are still made. Take its
 * descriptor out of what is polled first. Permits that were collected stay. NULL is allowed.
 */
void sg_queue_close(struct sg_queue *queue);

/**
 * A descriptor that is readable while there is something to collect, for poll, epoll, kqueue or an
 * event library. It is the queue's: it must not be read, written or closed. It changes in a forked
 * child, and nowhere else. -1 where `queue` is NULL or a child has no descriptors left.
 */
int32_t sg_queue_fd(const struct sg_queue *queue);

/**
 * Writes what has finished to the `capacity` places at `completions`, and how many these are, from
 * 0 on, to `count`. What does not fit is there for the next call, and the descriptor stays readable.
 * It waits for nothing.
 *
 * Call it when the descriptor is readable; to poll edge-triggered, call it until `count` is
 * less than `capacity`.
 */
sg_result sg_queue_collect(struct sg_queue *queue,
                           struct sg_completion *completions,
                           size_t capacity,
                           size_t *count);

/**
 * Gives up the calls that were submitted with `tag` and not collected: nothing of them is
 * collected any more, so what `tag` stands for may be freed. A turn that has not come is given
 * back, and so is a permit; a decision that is under way is still made.
 */
sg_result sg_queue_cancel(struct sg_queue *queue, uint64_t tag);

/**
 * Starts sg_try_acquire. The key is copied. `tag` is anything that tells the caller which call it
 * was, such as a number or a pointer made into one.
 *
 * After SG_OK, exactly one completion with `tag` is to be collected, unless it is cancelled or the
 * queue is closed: also where the decision was there at once, and whatever happens to the store.
 * After any other result there is none: SG_ERR_ARGUMENT and SG_ERR_UNSUPPORTED as for
 * sg_try_acquire, SG_ERR_FULL where the queue holds 100,000 calls that were not collected.
 */
sg_result sg_submit_try_acquire(struct sg_queue *queue,
                                const struct sg_limit *limit,
                                const void *key,
                                size_t key_len,
                                int64_t cost,
                                uint64_t tag);

/**
 * Starts sg_acquire, as sg_submit_try_acquire does; it is finished when the turn has come.
 * sg_queue_cancel gives the turn up.
 */
sg_result sg_submit_acquire(struct sg_queue *queue,
                            const struct sg_limit *limit,
                            const void *key,
                            size_t key_len,
                            int64_t cost,
                            int64_t timeout_us,
                            uint64_t tag);

/**
 * Starts sg_reserve, as sg_submit_try_acquire does.
 */
sg_result sg_submit_reserve(struct sg_queue *queue,
                            const struct sg_limit *limit,
                            const void *key,
                            size_t key_len,
                            int64_t cost,
                            int64_t max_wait_us,
                            uint64_t tag);

/**
 * Starts sg_peek, as sg_submit_try_acquire does.
 */
sg_result sg_submit_peek(struct sg_queue *queue,
                         const struct sg_limit *limit,
                         const void *key,
                         size_t key_len,
                         uint64_t tag);

/**
 * Starts sg_refund, as sg_submit_try_acquire does.
 */
sg_result sg_submit_refund(struct sg_queue *queue,
                           const struct sg_limit *limit,
                           const void *key,
                           size_t key_len,
                           int64_t cost,
                           uint64_t tag);

/**
 * Starts sg_reset, as sg_submit_try_acquire does.
 */
sg_result sg_submit_reset(struct sg_queue *queue,
                          const struct sg_limit *limit,
                          const void *key,
                          size_t key_len,
                          uint64_t tag);

/**
 * Starts sg_hold, as sg_submit_try_acquire does. The completion has the permit.
 */
sg_result sg_submit_hold(struct sg_queue *queue,
                         const struct sg_limit *limit,
                         const void *key,
                         size_t key_len,
                         int64_t timeout_us,
                         uint64_t tag);

/**
 * Starts sg_try_acquire_all, as sg_submit_try_acquire does. The entries are copied.
 */
sg_result sg_submit_try_acquire_all(struct sg_queue *queue,
                                    const struct sg_limiter *limiter,
                                    const struct sg_entry *entries,
                                    size_t count,
                                    uint64_t tag);

/**
 * Writes the header fields for a decision of a limit to `buffer`, as lines that each end with CR LF:
 * RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers), and Retry-After in whole
 * seconds, rounded up, where it is a refusal that time can heal. They fit every response, also one to
 * a call that was admitted. `legacy` other than 0 adds X-RateLimit-Limit, X-RateLimit-Remaining and
 * X-RateLimit-Reset, which is in how many whole seconds all of it will be there again.
 *
 * The text ends with a NUL; its length without it is written to `length`, which may be NULL. Where
 * `buffer` is NULL and `size` 0, only the length is.
 *
 * SG_ERR_ARGUMENT for a buffer that is too small: nothing is cut off.
 */
sg_result sg_http_headers(const struct sg_limit *limit,
                          const struct sg_decision *decision,
                          int32_t legacy,
                          char *buffer,
                          size_t size,
                          size_t *length);

/**
 * Writes the body of a refusal to `buffer`, as JSON: problem details (RFC 9457) of the draft's type
 * "quota-exceeded", with "violated-policies". It goes with the status SG_HTTP_STATUS and the content
 * type SG_HTTP_PROBLEM_CONTENT_TYPE.
 *
 * `buffer`, `size`, `length` and errors are as with sg_http_headers.
 */
sg_result sg_http_problem(const struct sg_limit *limit,
                          const struct sg_decision *decision,
                          char *buffer,
                          size_t size,
                          size_t *length);

/**
 * sg_http_headers for `count` decisions on several limits: the policies of all limits, and the
 * longest wait. Of the entries only the limits are looked at.
 */
sg_result sg_http_headers_all(const struct sg_limiter *limiter,
                              const struct sg_entry *entries,
                              const struct sg_decision *decisions,
                              size_t count,
                              int32_t legacy,
                              char *buffer,
                              size_t size,
                              size_t *length);

/**
 * sg_http_problem for `count` decisions on several limits. It names the limits that say how
 * long to wait; all of them, where none does. Of the entries only the limits are looked at.
 */
sg_result sg_http_problem_all(const struct sg_limiter *limiter,
                              const struct sg_entry *entries,
                              const struct sg_decision *decisions,
                              size_t count,
                              char *buffer,
                              size_t size,
                              size_t *length);

/**
 * Makes one from the `count` proxies that are trusted: addresses, networks such as "10.0.0.0/8", or
 * the presets "loopback", "linklocal", "uniquelocal" (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16,
 * fc00::/7) and "unix" (peers without an address, as on a Unix socket); at most 4096. Every machine in
 * them can choose its key, so name what your proxies have and nothing else.
 *
 * `header` is the one header that these proxies set, "x-forwarded-for" or "forwarded"; NULL is the
 * first. The other is never read, as proxies pass it on unseen. `ipv4_prefix` and `ipv6_prefix` are how
 * many leading bits of an address name a client, 1 to 32 and 1 to 128; -1 is 32 and 64.
 * sg_client_address_free frees it.
 *
 * SG_ERR_CONFIG for what is none of these, and for a network of all addresses.
 */
sg_result sg_client_address_new(const char *const *trusted,
                                size_t count,
                                const char *header,
                                int32_t ipv4_prefix,
                                int32_t ipv6_prefix,
                                struct sg_client_address **client);

/**
 * The name of the header whose values sg_client_address_key wants, in lower case. Valid until it is
 * freed; NULL where `client` is.
 */
const char *sg_client_address_header(const struct sg_client_address *client);

/**
 * Writes who the client is to `buffer`: "203.0.113.7", or "2001:db8:1:2::/64" where a prefix groups
 * addresses.
 *
 * `peer` is the address of the connection's other end, with or without port, brackets or zone; NULL
 * where it has none. `values` are the `count` values of the header, in the order in which they came.
 * What is no address in them ends the walk at the last trusted proxy, and is no error. A peer without
 * an address is "unknown", unless it is trusted ("unix") and the header names a client.
 *
 * `buffer`, `size` and `length` are as with sg_http_headers; SG_CLIENT_ADDRESS_KEY_SIZE is always
 * enough.
 */
sg_result sg_client_address_key(const struct sg_client_address *client,
                                const char *peer,
                                const char *const *values,
                                size_t count,
                                char *buffer,
                                size_t size,
                                size_t *length);

/**
 * Frees it. NULL is allowed.
 */
void sg_client_address_free(struct sg_client_address *client);

/**
 * Names a store's state: "connecting", "up", "out" or "closed"; "unknown" for any other number.
 * Never NULL, valid for ever.
 */
const char *sg_store_state_name(int32_t state);

/**
 * Makes a clock that stands at `start_us` microseconds after the Unix epoch: 0 to 2^53. -1 leaves
 * the start to the library: 2001-09-09T01:46:40Z. sg_manual_clock_free frees it.
 *
 * SG_ERR_ARGUMENT for a start out of range.
 */
sg_result sg_manual_clock_new(int64_t start_us, struct sg_manual_clock **clock);

/**
 * Moves a clock ahead by `by_us` microseconds: 0 to 2^53. Who waits for a time that has now come
 * is woken.
 *
 * SG_ERR_ARGUMENT for a step out of range.
 */
sg_result sg_manual_clock_advance(struct sg_manual_clock *clock, int64_t by_us);

/**
 * Puts a clock at `time_us` microseconds after the Unix epoch, ahead or back: 0 to 2^53.
 *
 * SG_ERR_ARGUMENT for a time out of range.
 */
sg_result sg_manual_clock_set(struct sg_manual_clock *clock, int64_t time_us);

/**
 * The time on a clock, in microseconds since the Unix epoch; -1 where `clock` is NULL.
 */
int64_t sg_manual_clock_now(const struct sg_manual_clock *clock);

/**
 * Frees a clock. Limiters that were opened with it go on with the time it shows. NULL is allowed.
 */
void sg_manual_clock_free(struct sg_manual_clock *clock);

/**
 * Names a source: "redis", "memory", "lease", "deny-cache" or "outage"; "unknown" for any other
 * number. Never NULL, valid for ever.
 */
const char *sg_source_name(int32_t source);

/**
 * Says what was wrong in this thread's last call that failed, without secrets; "" if none has.
 *
 * Never NULL. The text is valid until this thread's next call of a function that returns an
 * sg_result, or its end.
 */
const char *sg_last_error_message(void);

/**
 * Names a result: "ok", "spec", "argument", "config", "unsupported", "outage", "closed",
 * "internal" or "full"; "unknown" for any other number. Never NULL, valid for ever.
 */
const char *sg_result_name(int32_t result);

/**
 * The version of the library, such as "0.1.0". Never NULL, valid for ever.
 */
const char *sg_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SLUICEGATE_H */
