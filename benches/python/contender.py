"""The Python contenders of `make bench`: `contender.py WHO SCENARIO URL`.

`benches/README.md` has the protocol. A library is imported only where it is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

TASKS = 64
# Both admit every call of a run, and keep their state from one call to the next.
SPEC = "1/s burst 1000000000"
PER_HOUR = 1_000_000_000
KEY = "user:00042"

# A call on a key, and whether what it returned is of the kind that is measured.
Good = Callable[[Any], bool]
Sync = tuple[Callable[[str], object], Good]
Aio = tuple[Callable[[str], Awaitable[object]], Good]


class Tally:
    """What came of some seconds of calls."""

    def __init__(self) -> None:
        self.latencies = array("q")
        self.decisions = 0
        self.seconds = 0.0
        self.odd = 0


def say(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


def quantile(ordered: list[int], share: float) -> float | None:
    return ordered[int((len(ordered) - 1) * share)] / 1000 if ordered else None


def serve(run: Callable[[float], Tally]) -> None:
    say({"ready": True})
    for line in sys.stdin:
        ask = json.loads(line)
        warm, tally = run(ask["warm"]), run(ask["seconds"])
        ordered = sorted(tally.latencies)
        say(
            {
                "decisions": tally.decisions,
                "seconds": tally.seconds,
                "total": warm.decisions + tally.decisions,
                "odd": warm.odd + tally.odd,
                "p50_us": quantile(ordered, 0.50),
                "p99_us": quantile(ordered, 0.99),
            }
        )


def by_redis(decision: Any) -> bool:
    return decision.allowed and decision.source == "redis"


def sluicegate_sync(url: str) -> Sync:
    import sluicegate  # noqa: PLC0415

    limit = sluicegate.Limiter(url).limit("bench", SPEC)
    until = time.monotonic() + 10
    while not by_redis(limit.try_acquire("warm-up")):
        if time.monotonic() > until:
            raise RuntimeError("Redis does not decide")
    return limit.try_acquire, by_redis


def limits_sync(url: str) -> Sync:
    import limits  # noqa: PLC0415
    from limits.storage import RedisStorage  # noqa: PLC0415
    from limits.strategies import FixedWindowRateLimiter  # noqa: PLC0415

    # Its cheapest strategy.
    limit, limiter = limits.RateLimitItemPerHour(PER_HOUR), FixedWindowRateLimiter(RedisStorage(url))
    hit = limiter.hit
    return lambda key: hit(limit, "bench", key), bool


def throttled_sync(url: str) -> Sync:
    from throttled import RateLimiterType, RedisStore, Throttled, rate_limiter  # noqa: PLC0415

    throttle = Throttled(
        using=RateLimiterType.TOKEN_BUCKET.value,
        quota=rate_limiter.per_sec(1, burst=PER_HOUR),
        store=RedisStore(server=url),
    )
    return throttle.limit, lambda result: not result.limited


def blocking(call: Callable[[str], object], good: Good) -> None:
    """One thread that blocks, on one key."""

    def run(seconds: float) -> Tally:
        tally, clock = Tally(), time.perf_counter_ns
        append = tally.latencies.append
        started = last = clock()
        end = started + int(seconds * 1e9)
        while last < end:
            if not good(call(KEY)):
                tally.odd += 1
            now = clock()
            append(now - last)
            last = now
        tally.decisions, tally.seconds = len(tally.latencies), (last - started) / 1e9
        return tally

    serve(run)


def flood(url: str) -> None:
    """One thread whose calls are all refused."""
    import sluicegate  # noqa: PLC0415

    limit = sluicegate.Limiter(url).limit("bench", "1/day")
    while limit.try_acquire("flooded").source != "deny-cache":
        pass
    try_acquire = limit.try_acquire

    def run(seconds: float) -> Tally:
        tally, clock = Tally(), time.perf_counter
        started = clock()
        while clock() < started + seconds:
            for _ in range(256):
                if try_acquire("flooded"):
                    tally.odd += 1
            tally.decisions += 256
        tally.seconds = clock() - started
        return tally

    serve(run)


async def sluicegate_aio(url: str) -> Aio:
    from sluicegate import aio  # noqa: PLC0415

    limit = aio.Limiter(url).limit("bench", SPEC)
    until = time.monotonic() + 10
    while not by_redis(await limit.try_acquire("warm-up")):
        if time.monotonic() > until:
            raise RuntimeError("Redis does not decide")
    return limit.try_acquire, by_redis


async def limits_aio(url: str, implementation: str) -> Aio:
    import limits  # noqa: PLC0415
    from limits.aio.storage import RedisStorage  # noqa: PLC0415
    from limits.aio.strategies import FixedWindowRateLimiter  # noqa: PLC0415

    storage = RedisStorage(f"async+{url}", implementation=implementation)
    limit, limiter = limits.RateLimitItemPerHour(PER_HOUR), FixedWindowRateLimiter(storage)
    hit = limiter.hit
    return lambda key: hit(limit, "bench", key), bool


async def call_until(aio: Aio, key: str, end: int, tally: Tally) -> None:
    call, good = aio
    clock, append = time.perf_counter_ns, tally.latencies.append
    last = clock()
    while last < end:
        if not good(await call(key)):
            tally.odd += 1
        now = clock()
        append(now - last)
        last = now


def tasks(make: Callable[[], Awaitable[Aio]], count: int) -> None:
    """Many tasks, each one call at a time on a key of its own or on one for all."""
    loop = asyncio.new_event_loop()
    aio = loop.run_until_complete(make())
    keys = [f"user:{key:05}" for key in range(count)]

    async def run_all(seconds: float) -> Tally:
        tally = Tally()
        started = time.perf_counter_ns()
        end = started + int(seconds * 1e9)
        await asyncio.gather(*(call_until(aio, keys[task % count], end, tally) for task in range(TASKS)))
        tally.decisions = len(tally.latencies)
        tally.seconds = (time.perf_counter_ns() - started) / 1e9
        return tally

    serve(lambda seconds: loop.run_until_complete(run_all(seconds)))


def main() -> None:
    who, scenario, url = sys.argv[1:4]
    sync = {"sluicegate": sluicegate_sync, "limits": limits_sync, "throttled": throttled_sync}
    aio = {
        "sluicegate": lambda: sluicegate_aio(url),
        "limits-coredis": lambda: limits_aio(url, "coredis"),
        "limits-redispy": lambda: limits_aio(url, "redispy"),
    }
    if scenario == "blocking":
        blocking(*sync[who](url))
    elif scenario == "flood":
        flood(url)
    else:
        tasks(aio[who], int(scenario.removeprefix("tasks-")))


if __name__ == "__main__":
    main()
