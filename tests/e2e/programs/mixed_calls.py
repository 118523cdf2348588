"""mixed_calls.py URL CALLS SEED: makes so many calls, of every verb on every algorithm.

Prints how many of each verb.
"""

import asyncio
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from sluicegate import aio

SPECS = {
    "token-bucket": "100/s burst 300",
    "gcra": "gcra 3/20ms burst 200",
    "leaky-bucket": "leaky-bucket 100/s queue 200",
    "fixed-window": "fixed-window 50/2s",
    "aligned": "fixed-window 50/2s align",
    "sliding-window": "sliding-window 50/2s buckets 7",
    "sliding-log": "sliding-log 50/2s",
    "several": "100/s burst 50; sliding-log 200/2s; gcra 500/3s; leaky-bucket 1000/s",
}
RESERVING = ("token-bucket", "gcra", "leaky-bucket")
TASKS = 200

url, calls, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
KEYS: list[str | bytes] = [f"user:{n}" for n in range(200)]
KEYS += ["{braced}", "über 100%", "a" * 500, b"\x00\xff", *(rng.randbytes(8) for _ in range(50))]


async def main() -> None:
    made: Counter[str] = Counter()
    async with aio.Limiter(url, timeout=10.0, on_outage="raise", deny_cache=0) as limiter:
        limits = {name: limiter.limit(name, spec) for name, spec in SPECS.items()}
        seats = limiter.limit("seats", "concurrency 3 ttl 2s")
        kept = []

        def any_limit() -> aio.Limit:
            return rng.choice(list(limits.values()))

        async def hold(key: str | bytes) -> None:
            permit = await seats.hold(key, timeout=rng.choice([0.0, 0.01]))
            if rng.random() < 0.9:
                permit.release()
            else:
                kept.append(permit)

        async def acquire(key: str | bytes) -> None:
            call = any_limit().acquire(key, cost=rng.choice([0, 1, 3]), timeout=rng.choice([0.0, 0.02, 0.5]))
            # Some give up in the middle of their wait.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(call, timeout=rng.choice([0.01, 0.05]))

        def together(key: str | bytes) -> Coroutine[Any, Any, Any]:
            some = rng.sample(list(limits.values()), 3)
            return limiter.try_acquire_all([(limit, key, rng.choice([0, 1, 2])) for limit in some])

        def reserve(key: str | bytes) -> Coroutine[Any, Any, Any]:
            return limits[rng.choice(RESERVING)].reserve(key, cost=rng.choice([1, 5]), max_wait=0.5)

        verbs: dict[str, tuple[int, Callable[[str | bytes], Coroutine[Any, Any, Any]]]] = {
            "try_acquire": (
                50,
                lambda key: any_limit().try_acquire(key, cost=rng.choice([0, 1, 1, 4, 10**6])),
            ),
            "acquire": (5, acquire),
            "reserve": (10, reserve),
            "peek": (10, lambda key: rng.choice([any_limit(), seats]).peek(key)),
            "refund": (10, lambda key: any_limit().refund(key, cost=rng.choice([0, 1, 50]))),
            "reset": (2, lambda key: rng.choice([any_limit(), seats]).reset(key)),
            "hold": (8, hold),
            "try_acquire_all": (5, together),
        }
        weights = [weight for weight, _ in verbs.values()]

        async def some_calls(count: int) -> None:
            for verb in rng.choices(list(verbs), weights, k=count):
                await verbs[verb][1](rng.choice(KEYS))
                made[verb] += 1

        await asyncio.gather(*(some_calls(calls // TASKS) for _ in range(TASKS)))
        for permit in kept:
            permit.release()
        # The last releases are on their way.
        await seats.peek("user:0")
    print(json.dumps(made))


asyncio.run(main())
