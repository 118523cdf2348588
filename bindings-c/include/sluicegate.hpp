/*
 * Sluicegate for C++17 and newer: sluicegate.h with owners, exceptions and std::chrono.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     sluicegate::Limiter limiter("redis://localhost:6379");
 *     auto login = limiter.limit("login", "100/s burst 200");
 *     if (login.try_acquire("user:42")) serve();
 *
 * Being over a limit is a Decision that is false. What throws is a call that was not made: a bad
 * spec, URL or argument, a limiter that was closed, a store that is away where the limit says
 * SG_ON_OUTAGE_RAISE. What each function does, takes and fails with stands in sluicegate.h under
 * its C name; here is only what differs.
 *
 * All classes are moved, not copied. Limiter, Limit and Queue may be used by several threads at
 * once as far as sluicegate.h says. One that was moved from may only be assigned to or destroyed.
 */
#ifndef SLUICEGATE_HPP
#define SLUICEGATE_HPP

#include <sluicegate.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluicegate {

/** A duration as the library keeps it. Coarser ones, such as 2s or 100ms, become one by themselves. */
using Duration = std::chrono::microseconds;

/** Why a call was not made. */
class Error : public std::runtime_error {
public:
    Error(sg_result code, const std::string &message) : std::runtime_error(message), code_(code) {}

    /** What kind of error it is; never SG_OK. */
    sg_result code() const noexcept { return code_; }

private:
    sg_result code_;
};

/** The answer to one call; true where it may go on. */
struct Decision {
    bool allowed = false;
    /** sg_source_name names it. */
    sg_source source = SG_SOURCE_MEMORY;
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    /** Absent when allowed, and when the cost can never fit. */
    std::optional<Duration> retry_after;
    Duration reset_after{0};
    Duration wait{0};
    /** Which limit of the spec the numbers are of, from 0. */
    std::int32_t rule = 0;

    Decision() = default;

    explicit Decision(const sg_decision &from)
        : allowed(from.allowed),
          source(from.source),
          limit(from.limit),
          remaining(from.remaining),
          reset_after(from.reset_after),
          wait(from.wait),
          rule(from.rule) {
        if (from.retry_after >= 0) retry_after = Duration(from.retry_after);
    }

    /** As C has it. */
    sg_decision c() const noexcept {
        sg_decision decision{};
        decision.allowed = allowed;
        decision.source = source;
        decision.limit = limit;
        decision.remaining = remaining;
        decision.retry_after = retry_after ? retry_after->count() : -1;
        decision.reset_after = reset_after.count();
        decision.wait = wait.count();
        decision.rule = rule;
        return decision;
    }

    explicit operator bool() const noexcept { return allowed; }
};

namespace detail {

/** Ends the life of what a C function has opened. */
template <auto Close>
struct Closer {
    template <class T>
    void operator()(T *handle) const noexcept {
        Close(handle);
    }
};

template <class T, auto Close>
using Handle = std::unique_ptr<T, Closer<Close>>;

inline void check(sg_result result) {
    if (result != SG_OK) throw Error(result, sg_last_error_message());
}

/** A text for C, which would take it to end at a NUL. */
inline std::string text(const char *name, std::string_view value) {
    if (value.find('\0') != std::string_view::npos)
        throw Error(SG_ERR_ARGUMENT, std::string(name) + " must not hold a NUL");
    return std::string(value);
}

/** A number for C, to which -1 says that nothing was given; any other negative one is refused there. */
inline std::int64_t given(std::optional<std::int64_t> value) {
    if (!value) return -1;
    return *value == -1 ? -2 : *value;
}

inline std::int64_t given(std::optional<Duration> value) {
    return given(value ? std::optional<std::int64_t>(value->count()) : std::nullopt);
}

/** The text that a C function writes to a buffer, asked first for its length. */
template <class Write>
std::string written(Write write) {
    std::size_t length = 0;
    check(write(static_cast<char *>(nullptr), std::size_t{0}, &length));
    std::string text(length + 1, '\0');
    check(write(text.data(), text.size(), &length));
    text.resize(length);
    return text;
}

}  // namespace detail

/** A clock that stands still until it is moved, for tests. It may go before its limiters. */
class ManualClock {
public:
    /** Stands at `start` after the Unix epoch; without one, at a time of the library's choice. */
    explicit ManualClock(std::optional<Duration> start = std::nullopt) {
        sg_manual_clock *clock = nullptr;
        detail::check(sg_manual_clock_new(detail::given(start), &clock));
        handle_.reset(clock);
    }

    void advance(Duration by) { detail::check(sg_manual_clock_advance(get(), by.count())); }
    void set(Duration since_epoch) { detail::check(sg_manual_clock_set(get(), since_epoch.count())); }
    Duration now() const { return Duration(sg_manual_clock_now(get())); }

    sg_manual_clock *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<sg_manual_clock, sg_manual_clock_free> handle_;
};

/** A change of a limiter's. */
struct Event {
    /** One of sg_event_kind, which sg_event_kind_name names; later versions may add some. */
    std::int32_t kind = 0;
    std::chrono::system_clock::time_point at;
    /** What a log says of it. Valid during the call. */
    std::string_view message;
};

/** The options of a limiter; what is not set is left to the library. */
struct Options {
    std::optional<std::string> prefix = std::nullopt;
    std::optional<Duration> timeout = std::nullopt;
    std::optional<Duration> deny_cache = std::nullopt;
    std::optional<std::int64_t> max_keys = std::nullopt;
    std::optional<std::int64_t> max_waiting = std::nullopt;
    std::optional<sg_on_outage> on_outage = std::nullopt;
    const ManualClock *clock = nullptr;
    /**
     * Is told when something changes, on a thread of the library's, one event after the other, and not any
     * more once the Limiter is gone. It must not end its Limiter's life; what it throws is dropped.
     */
    std::function<void(const Event &)> on_event = nullptr;
};

namespace detail {

using Listener = std::function<void(const Event &)>;

/** What C calls; no exception may pass through it. */
inline void tell(const sg_event *event, void *listener) noexcept {
    try {
        const auto at = std::chrono::duration_cast<std::chrono::system_clock::duration>(Duration(event->at_us));
        (*static_cast<Listener *>(listener))({event->kind, std::chrono::system_clock::time_point(at), event->message});
    } catch (...) {
    }
}

/** Ends the life of a limiter, and then that of who listens to it. */
struct LimiterCloser {
    std::unique_ptr<Listener> listener;

    void operator()(sg_limiter *limiter) const noexcept { sg_limiter_close(limiter); }
};

}  // namespace detail

/** A permit of a concurrency limit, given back when it goes; empty where the limit refused. */
class Permit {
public:
    Permit() = default;
    Permit(Decision decision, sg_permit *permit) : decision_(decision), handle_(permit) {}

    /** Whether a permit is held. */
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /** Gives it back now. */
    void release() noexcept { handle_.reset(); }

    /** The decision that it came with. */
    const Decision &decision() const noexcept { return decision_; }

    sg_permit *get() const noexcept { return handle_.get(); }

private:
    Decision decision_;
    detail::Handle<sg_permit, sg_release> handle_;
};

/** A name plus a spec: what keys are held to. A wait without a bound is std::nullopt. */
class Limit {
public:
    /** Takes over what sg_limit_open has opened. */
    explicit Limit(sg_limit *opened) noexcept : handle_(opened) {}

    std::string_view name() const { return sg_limit_name(get()); }
    std::string_view spec() const { return sg_limit_spec(get()); }

    Decision try_acquire(std::string_view key, std::int64_t cost = 1) const {
        return decided(sg_try_acquire, key, cost);
    }

    Decision acquire(std::string_view key, std::int64_t cost = 1,
                     std::optional<Duration> timeout = std::nullopt) const {
        return decided(sg_acquire, key, cost, detail::given(timeout));
    }

    Decision acquire(std::string_view key, Duration timeout) const { return acquire(key, 1, timeout); }

    Decision reserve(std::string_view key, std::int64_t cost = 1,
                     std::optional<Duration> max_wait = std::nullopt) const {
        return decided(sg_reserve, key, cost, detail::given(max_wait));
    }

    Decision reserve(std::string_view key, Duration max_wait) const { return reserve(key, 1, max_wait); }

    Decision peek(std::string_view key) const { return decided(sg_peek, key); }

    Decision refund(std::string_view key, std::int64_t cost = 1) const {
        return decided(sg_refund, key, cost);
    }

    void reset(std::string_view key) const { detail::check(sg_reset(get(), key.data(), key.size())); }

    Permit hold(std::string_view key, std::optional<Duration> timeout = std::nullopt) const {
        sg_decision decision;
        sg_permit *permit = nullptr;
        detail::check(sg_hold(get(), key.data(), key.size(), detail::given(timeout), &decision, &permit));
        return Permit(Decision(decision), permit);
    }

    /** The header fields for a decision, as lines that end with CR LF: see sg_http_headers. */
    std::string http_headers(const Decision &decision, bool legacy = false) const {
        const sg_decision from = decision.c();
        return detail::written([&](char *buffer, std::size_t size, std::size_t *length) {
            return sg_http_headers(get(), &from, legacy ? 1 : 0, buffer, size, length);
        });
    }

    /** The body of a refusal, as JSON: see sg_http_problem. */
    std::string http_problem(const Decision &decision) const {
        const sg_decision from = decision.c();
        return detail::written([&](char *buffer, std::size_t size, std::size_t *length) {
            return sg_http_problem(get(), &from, buffer, size, length);
        });
    }

    sg_limit *get() const noexcept { return handle_.get(); }

private:
    template <class Verb, class... Arguments>
    Decision decided(Verb verb, std::string_view key, Arguments... arguments) const {
        sg_decision decision;
        detail::check(verb(get(), key.data(), key.size(), arguments..., &decision));
        return Decision(decision);
    }

    detail::Handle<sg_limit, sg_limit_close> handle_;
};

/** One of the limits that try_acquire_all takes from. */
struct Entry {
    const Limit &limit;
    std::string_view key;
    std::int64_t cost = 1;
};

namespace detail {

inline std::vector<sg_entry> entries(const std::vector<Entry> &from) {
    std::vector<sg_entry> entries;
    entries.reserve(from.size());
    for (const Entry &entry : from)
        entries.push_back({entry.limit.get(), entry.key.data(), entry.key.size(), entry.cost});
    return entries;
}

}  // namespace detail

/** A store, its connections and its limits: what a process opens once. It is closed when it goes. */
class Limiter {
public:
    explicit Limiter(std::string_view url, const Options &options = {}) {
        const std::string address = detail::text("url", url);
        const std::string prefix = detail::text("prefix", options.prefix.value_or(""));
        sg_options set;
        detail::check(sg_options_init(&set));
        if (options.prefix) set.prefix = prefix.c_str();
        set.timeout_us = detail::given(options.timeout);
        set.deny_cache_us = detail::given(options.deny_cache);
        set.max_keys = detail::given(options.max_keys);
        set.max_waiting = detail::given(options.max_waiting);
        if (options.on_outage) set.on_outage = *options.on_outage;
        if (options.clock != nullptr) set.clock = options.clock->get();
        std::unique_ptr<detail::Listener> listener;
        if (options.on_event) {
            listener = std::make_unique<detail::Listener>(options.on_event);
            set.on_event = detail::tell;
            set.user_data = listener.get();
        }
        sg_limiter *limiter = nullptr;
        detail::check(sg_limiter_open(address.c_str(), &set, &limiter));
        handle_ = Handle(limiter, {std::move(listener)});
    }

    /** Takes over what sg_limiter_open has opened, as with options that this header does not have. */
    explicit Limiter(sg_limiter *opened) noexcept : handle_(opened, {}) {}

    Limit limit(std::string_view name, std::string_view spec) const {
        sg_limit *limit = nullptr;
        detail::check(sg_limit_open(get(), detail::text("name", name).c_str(),
                                    detail::text("spec", spec).c_str(), &limit));
        return Limit(limit);
    }

    /** A limit with its own behaviour in an outage. */
    Limit limit(std::string_view name, std::string_view spec, sg_on_outage on_outage) const {
        sg_limit *limit = nullptr;
        detail::check(sg_limit_open_on_outage(get(), detail::text("name", name).c_str(),
                                              detail::text("spec", spec).c_str(), on_outage, &limit));
        return Limit(limit);
    }

    /** Takes from all or from none; the one decision is that of sg_try_acquire_all. */
    Decision try_acquire_all(const std::vector<Entry> &entries) const {
        const std::vector<sg_entry> parts = detail::entries(entries);
        sg_decision decision;
        detail::check(sg_try_acquire_all(get(), parts.data(), parts.size(), &decision));
        return Decision(decision);
    }

    sg_limiter_status status() const {
        sg_limiter_status status;
        detail::check(sg_status(get(), &status));
        return status;
    }

    sg_limiter *get() const noexcept { return handle_.get(); }

private:
    using Handle = std::unique_ptr<sg_limiter, detail::LimiterCloser>;
    Handle handle_;
};

/** A call of a queue that has finished. */
struct Completion {
    /** As it was given when the call was submitted. */
    std::uint64_t tag = 0;
    /** Why there is no decision. It is not thrown, so that the other completions are not lost. */
    std::optional<Error> error;
    /** The decision. */
    Decision decision;
    /** Of submit_hold. */
    Permit permit;
};

/** Calls that are under way, for a program with an event loop of its own: see sg_queue. */
class Queue {
public:
    Queue() {
        sg_queue *queue = nullptr;
        detail::check(sg_queue_open(&queue));
        handle_.reset(queue);
    }

    /** Readable while there is something to collect. */
    int fd() const { return sg_queue_fd(get()); }

    /** What has finished, `most` at most. It waits for nothing. */
    std::vector<Completion> collect(std::size_t most = 64) {
        // Room for all first: once a permit is collected, nothing may throw before it has an owner.
        std::vector<sg_completion> finished(most + 1);
        std::vector<Completion> completions(most);
        std::size_t count = 0;
        detail::check(sg_queue_collect(get(), finished.data(), most, &count));
        for (std::size_t i = 0; i < count; i++) {
            completions[i].tag = finished[i].tag;
            completions[i].decision = Decision(finished[i].decision);
            completions[i].permit = Permit(completions[i].decision, finished[i].permit);
        }
        completions.resize(count);
        for (std::size_t i = 0; i < count; i++) {
            const sg_completion &from = finished[i];
            if (from.result != SG_OK) completions[i].error.emplace(from.result, from.message);
        }
        return completions;
    }

    /** Gives up the calls with this tag: nothing of them is collected any more. */
    void cancel(std::uint64_t tag) { detail::check(sg_queue_cancel(get(), tag)); }

    void submit_try_acquire(const Limit &limit, std::string_view key, std::int64_t cost, std::uint64_t tag) {
        submit(sg_submit_try_acquire, limit, key, cost, tag);
    }

    void submit_acquire(const Limit &limit, std::string_view key, std::int64_t cost,
                        std::optional<Duration> timeout, std::uint64_t tag) {
        submit(sg_submit_acquire, limit, key, cost, detail::given(timeout), tag);
    }

    void submit_reserve(const Limit &limit, std::string_view key, std::int64_t cost,
                        std::optional<Duration> max_wait, std::uint64_t tag) {
        submit(sg_submit_reserve, limit, key, cost, detail::given(max_wait), tag);
    }

    void submit_peek(const Limit &limit, std::string_view key, std::uint64_t tag) {
        submit(sg_submit_peek, limit, key, tag);
    }

    void submit_refund(const Limit &limit, std::string_view key, std::int64_t cost, std::uint64_t tag) {
        submit(sg_submit_refund, limit, key, cost, tag);
    }

    void submit_reset(const Limit &limit, std::string_view key, std::uint64_t tag) {
        submit(sg_submit_reset, limit, key, tag);
    }

    void submit_hold(const Limit &limit, std::string_view key, std::optional<Duration> timeout,
                     std::uint64_t tag) {
        submit(sg_submit_hold, limit, key, detail::given(timeout), tag);
    }

    void submit_try_acquire_all(const Limiter &limiter, const std::vector<Entry> &entries,
                                std::uint64_t tag) {
        const std::vector<sg_entry> parts = detail::entries(entries);
        detail::check(sg_submit_try_acquire_all(get(), limiter.get(), parts.data(), parts.size(), tag));
    }

    sg_queue *get() const noexcept { return handle_.get(); }

private:
    template <class Verb, class... Arguments>
    void submit(Verb verb, const Limit &limit, std::string_view key, Arguments... arguments) {
        detail::check(verb(get(), limit.get(), key.data(), key.size(), arguments...));
    }

    detail::Handle<sg_queue, sg_queue_close> handle_;
};

}  // namespace sluicegate

#endif /* SLUICEGATE_HPP */
