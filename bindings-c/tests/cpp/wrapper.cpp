// sluicegate.hpp: what it owns, what it throws, and that every verb does what the C one does.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sluicegate.hpp>
#include <thread>
#include <type_traits>

using namespace std::chrono_literals;
using namespace sluicegate;

namespace {

#define CHECK(condition) check(__LINE__, #condition, static_cast<bool>(condition))

void check(int line, const char *what, bool holds) {
    if (holds) return;
    std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, line, what);
    std::exit(1);
}

#define THROWS(call, code, words) throws(__LINE__, #call, [&] { (void)(call); }, code, words)

template <class Call>
void throws(int line, const char *what, Call call, sg_result code, const char *words) {
    try {
        call();
    } catch (const Error &error) {
        if (error.code() == code && std::strstr(error.what(), words) != nullptr) return;
        std::fprintf(stderr, "%s:%d: %s throws %s: %s\n", __FILE__, line, what, sg_result_name(error.code()),
                     error.what());
        std::exit(1);
    }
    check(line, what, false);
}

template <class T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                            !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(moves_only<Limiter> && moves_only<Limit> && moves_only<Permit> && moves_only<Queue>);
static_assert(moves_only<ManualClock>);
static_assert(std::is_copy_constructible_v<Decision> && !std::is_convertible_v<Decision, bool>);
static_assert(std::is_base_of_v<std::runtime_error, Error>);

Options options(const ManualClock *clock) {
    static int count = 0;
    Options options;
    options.prefix = "cpp-" + std::to_string(getpid()) + "-" + std::to_string(std::time(nullptr)) + "-" +
                     std::to_string(++count);
    options.timeout = 5s;
    options.deny_cache = 0s;
    options.clock = clock;
    return options;
}

std::vector<Completion> collect(Queue &queue, std::size_t wanted) {
    std::vector<Completion> all;
    while (all.size() < wanted) {
        pollfd watched{queue.fd(), POLLIN, 0};
        CHECK(poll(&watched, 1, 60000) == 1);
        for (Completion &completion : queue.collect(2)) all.push_back(std::move(completion));
    }
    CHECK(all.size() == wanted);
    return all;
}

void verbs(const char *url, sg_source source) {
    ManualClock clock(1'000'000s);
    CHECK(clock.now() == 1'000'000s);
    Limiter limiter(url, options(&clock));
    Limit bucket = limiter.limit("bucket", "3/H");
    CHECK(bucket.name() == "bucket" && bucket.spec() == "3/h");

    Decision d = bucket.try_acquire("k", 2);
    CHECK(d && d.allowed && d.source == source && d.limit == 3 && d.remaining == 1 && !d.retry_after);
    CHECK(d.reset_after == 40min && d.wait == 0s);
    d = bucket.try_acquire("k", 2);
    CHECK(!d && d.retry_after == 20min);
    CHECK(!bucket.try_acquire("k", 4).retry_after);
    CHECK(bucket.try_acquire("k"));
    CHECK(!bucket.peek("k") && bucket.refund("k").remaining == 1 && bucket.peek("k"));
    CHECK(bucket.refund("k", 2).remaining == 3);
    bucket.reset("k");
    CHECK(bucket.acquire("k", 3) && !bucket.acquire("k", 1, 19min) && !bucket.acquire("k", 19min));
    CHECK(bucket.reserve("k", 1).wait == 20min && bucket.reserve("k", 45min).wait == 40min);
    CHECK(!bucket.reserve("k", 3, 1h));
    clock.advance(1h);
    CHECK(bucket.try_acquire("k", 1) && clock.now() == 1'003'600s);
    clock.set(0s);
    CHECK(clock.now() == 0s);

    // Keys are bytes: what follows a NUL counts.
    CHECK(bucket.try_acquire(std::string_view("a\0b", 3), 3) && bucket.try_acquire(std::string_view("a\0c", 3), 3));

    Limit other = limiter.limit("other", "1/h", SG_ON_OUTAGE_DENY);
    auto both = limiter.try_acquire_all({{bucket, "all"}, {other, "all", 1}});
    CHECK(both && both.remaining == 0);
    both = limiter.try_acquire_all({{bucket, "all"}, {other, "all"}});
    CHECK(!both);
    CHECK(limiter.status().state != SG_STORE_CLOSED);
}

void permits(const char *url) {
    Limiter limiter(url, options(nullptr));
    Limit jobs = limiter.limit("jobs", "concurrency 1 ttl 1m");
    {
        Permit permit = jobs.hold("k");
        CHECK(permit && permit.decision().allowed && permit.decision().remaining == 0);
        Permit refused = jobs.hold("k", 0s);
        CHECK(!refused && !refused.decision());
        refused = std::move(permit);
        CHECK(refused && !jobs.hold("k", 0s));
    }
    // Its end gave it back, and so does release.
    Permit again = jobs.hold("k", 10s);
    CHECK(again);
    again.release();
    CHECK(!again && again.decision());
    again.release();
    CHECK(jobs.hold("k", 10s));
}

void queues(const char *url) {
    ManualClock clock;
    Limiter limiter(url, options(&clock));
    Limit bucket = limiter.limit("bucket", "3/h");
    Limit jobs = limiter.limit("jobs", "concurrency 1 ttl 1m");
    Queue queue;
    CHECK(queue.fd() >= 0 && queue.collect().empty() && queue.collect(0).empty());

    queue.submit_try_acquire(bucket, "k", 2, 1);
    queue.submit_refund(bucket, "k", 1, 2);
    queue.submit_peek(bucket, "k", 3);
    queue.submit_reserve(bucket, "k", 3, std::nullopt, 4);
    queue.submit_acquire(bucket, "other", 1, 0s, 5);
    queue.submit_reset(bucket, "k", 6);
    queue.submit_hold(jobs, "k", 0s, 7);
    queue.submit_try_acquire_all(limiter, {{bucket, "all", 3}}, 8);
    std::int64_t remaining[9] = {0};
    for (Completion &done : collect(queue, 8)) {
        CHECK(done.tag >= 1 && done.tag <= 8 && !done.error);
        CHECK(done.decision.allowed == (done.tag != 6) && !done.decision.retry_after);
        CHECK(static_cast<bool>(done.permit) == (done.tag == 7));
        if (done.tag == 4) CHECK(done.decision.wait == 20min);
        remaining[done.tag] = done.decision.remaining;
    }
    CHECK(remaining[1] == 1 && remaining[2] == 2 && remaining[3] == 2 && remaining[5] == 2);

    queue.submit_acquire(bucket, "all", 1, std::nullopt, 9);
    queue.submit_acquire(bucket, "all", 1, std::nullopt, 10);
    queue.cancel(10);
    // Nobody can see from outside when a call has begun to wait, so time goes on until it is done.
    for (int i = 0;; i++) {
        auto done = queue.collect();
        if (!done.empty()) {
            CHECK(done.size() == 1 && done[0].tag == 9 && done[0].decision);
            break;
        }
        CHECK(i < 6000);
        clock.advance(20min);
        std::this_thread::sleep_for(10ms);
    }
    queue.submit_hold(jobs, "k", 0s, 11);
    CHECK(collect(queue, 1)[0].permit);
    queue.submit_hold(jobs, "k", 0s, 12);
    // Nobody collects this one.
}

void what_throws(const char *url) {
    Limiter limiter(url, options(nullptr));
    THROWS(Limiter("http://localhost"), SG_ERR_CONFIG, "url");
    THROWS(Limiter(std::string_view("memory://\0", 10)), SG_ERR_ARGUMENT, "url");
    THROWS(limiter.limit("n", "100/"), SG_ERR_SPEC, "");
    THROWS(limiter.limit("n", std::string_view("1/s\0", 4)), SG_ERR_ARGUMENT, "spec");
    THROWS(limiter.limit(std::string_view("n\0", 2), "1/s"), SG_ERR_ARGUMENT, "name");
    THROWS(limiter.limit("", "1/s"), SG_ERR_ARGUMENT, "name");
    Options bad = options(nullptr);
    bad.timeout = -1us;
    THROWS(Limiter(url, bad), SG_ERR_ARGUMENT, "timeout_us");
    bad = options(nullptr);
    bad.max_keys = -1;
    THROWS(Limiter(url, bad), SG_ERR_CONFIG, "max_keys");
    bad = options(nullptr);
    bad.prefix = std::string("a\0b", 3);
    THROWS(Limiter(url, bad), SG_ERR_ARGUMENT, "prefix");
    bad.prefix = "";
    THROWS(Limiter(url, bad), SG_ERR_CONFIG, "prefix");

    Limit limit = limiter.limit("n", "10/h");
    THROWS(limit.try_acquire(""), SG_ERR_ARGUMENT, "key");
    THROWS(limit.try_acquire("k", -1), SG_ERR_ARGUMENT, "cost");
    // A deadline that has passed is not "no bound", as -1 is in C.
    THROWS(limit.acquire("k", -1us), SG_ERR_ARGUMENT, "timeout_us");
    THROWS(limit.reserve("k", 1, -1us), SG_ERR_ARGUMENT, "max_wait_us");
    THROWS(limit.hold("k"), SG_ERR_UNSUPPORTED, "hold");
    THROWS(ManualClock(-1us), SG_ERR_ARGUMENT, "start_us");
    THROWS(limiter.try_acquire_all({}), SG_ERR_ARGUMENT, "entries");
    Queue queue;
    THROWS(queue.submit_try_acquire(limit, "k", -1, 1), SG_ERR_ARGUMENT, "cost");
    THROWS(queue.submit_acquire(limit, "k", 1, -1us, 1), SG_ERR_ARGUMENT, "timeout_us");
    THROWS(queue.submit_hold(limit, "k", 1s, 1), SG_ERR_UNSUPPORTED, "hold");
    CHECK(queue.collect().empty());

    // Ends the first limiter: its limits live on, and say so.
    limiter = Limiter(url, options(nullptr));
    THROWS(limit.try_acquire("k"), SG_ERR_CLOSED, "closed");
    queue.submit_try_acquire(limit, "k", 1, 3);
    auto done = collect(queue, 1);
    CHECK(done[0].tag == 3 && done[0].error && done[0].error->code() == SG_ERR_CLOSED);
    CHECK(std::strstr(done[0].error->what(), "closed") != nullptr && !done[0].decision);
}

void an_outage() {
    Limiter limiter("redis://127.0.0.1:1");
    THROWS(limiter.limit("raise", "1/h", SG_ON_OUTAGE_RAISE).try_acquire("k"), SG_ERR_OUTAGE, "");
    Decision d = limiter.limit("deny", "1/h", SG_ON_OUTAGE_DENY).try_acquire("k");
    CHECK(!d && d.source == SG_SOURCE_OUTAGE);
#if __cplusplus >= 202002L
    Limiter allowing("redis://127.0.0.1:1", {.timeout = 50ms, .on_outage = SG_ON_OUTAGE_ALLOW});
    CHECK(allowing.limit("allow", "1/h").try_acquire("k", 2));
#endif
}

bool within_a_minute(const std::function<bool()> &holds) {
    for (int i = 0; i < 6000 && !holds(); i++) std::this_thread::sleep_for(10ms);
    return holds();
}

void events() {
    const auto begun = std::chrono::system_clock::now() - 1s;
    std::atomic<int> told{0}, gone{0};
    // Lives as long as the limiter that it listens to.
    auto alive = std::shared_ptr<void>(nullptr, [&](void *) { gone++; });
    Options listening;
    listening.on_event = [&, alive = std::move(alive)](const Event &event) {
        CHECK(event.kind == SG_EVENT_OUT && event.at > begun);
        CHECK(event.message.find("refused") != std::string_view::npos);
        told++;
        throw std::runtime_error("dropped");
    };
    {
        Limiter first("redis://127.0.0.1:1", listening);
        listening = Options();
        Limiter second = std::move(first);
        CHECK(within_a_minute([&] { return told == 1; }) && gone == 0);
        second = Limiter("memory://");
        CHECK(gone == 1);
        CHECK(second.limit("n", "1/s").try_acquire("k"));
    }
    CHECK(told == 1 && gone == 1);
}

void http() {
    ManualClock clock;
    Limiter limiter("memory://", options(&clock));
    Limit limit = limiter.limit("api", "1/m; 10/m");
    const Decision allowed = limit.try_acquire("k"), refused = limit.try_acquire("k");
    CHECK(allowed.rule == 0 && limit.http_headers(allowed).find("Retry-After") == std::string::npos);
    const std::string fields = limit.http_headers(refused, true);
    CHECK(fields.find("Retry-After: 60\r\n") != std::string::npos);
    CHECK(fields.find("X-RateLimit-Limit: 1\r\n") != std::string::npos);
    CHECK(fields.find("RateLimit: \"api-1\";r=0;t=60\r\n") != std::string::npos);
    const std::string problem = limit.http_problem(refused);
    CHECK(problem.front() == '{' && problem.back() == '}' && problem.find("api-1") != std::string::npos);
}

void what_c_has_opened() {
    sg_options set;
    sg_limiter *opened = nullptr;
    CHECK(sg_options_init(&set) == SG_OK && sg_limiter_open("memory://", &set, &opened) == SG_OK);
    Limiter limiter(opened);
    sg_limit *limit = nullptr;
    CHECK(sg_limit_open(limiter.get(), "n", "1/s", &limit) == SG_OK);
    CHECK(Limit(limit).try_acquire("k"));
}

}  // namespace

int main() {
    alarm(300);
    const char *redis = std::getenv("SLUICEGATE_TEST_REDIS");
    int stores = 0;
    for (const char *url : {"memory://", redis}) {
        if (url == nullptr || *url == '\0') continue;
        verbs(url, url == redis ? SG_SOURCE_REDIS : SG_SOURCE_MEMORY);
        permits(url);
        queues(url);
        what_throws(url);
        stores++;
    }
    an_outage();
    events();
    http();
    what_c_has_opened();
    std::printf("wrapper: all as in C, on %d stores\n", stores);
    return 0;
}
