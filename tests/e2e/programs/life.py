"""life.py URL SPEC TASKS: for each line of input, does it and prints what came of it as JSON.

"decide N": so many calls over a hundred keys, by so many tasks of an event loop; with TASKS 0, one after
the other on this thread. "limiters N": opens and uses so many, and closes every other one. "close": calls
from twenty threads, or of so many tasks, under which the limiter is closed. "threads N": so many threads
with ten calls each on one key.
"""

import asyncio
import gc
import json
import sys
import threading
import time
from collections import Counter

import sluicegate
from sluicegate import aio

url, spec = sys.argv[1:3]
tasks = int(sys.argv[3])
KEYS = [f"key:{n}" for n in range(100)]
limiter = sluicegate.Limiter(url, timeout=10.0)
limit = limiter.limit("life", spec)
alimiter = aio.Limiter(url, timeout=10.0)
alimit = alimiter.limit("life", spec)


def outcome(error: Exception) -> str:
    return "closed" if isinstance(error, sluicegate.ClosedError) else repr(error)


def decide(count: int) -> dict[str, int]:
    return {"allowed": sum(bool(limit.try_acquire(KEYS[n % 100])) for n in range(count))}


async def adecide(count: int) -> dict[str, int]:
    async def some(first: int) -> int:
        return sum([bool(await alimit.try_acquire(KEYS[n % 100])) for n in range(first, count, tasks)])

    return {"allowed": sum(await asyncio.gather(*map(some, range(tasks))))}


async def limiters(count: int) -> dict[str, int]:
    allowed = 0
    for n in range(count):
        if tasks:
            other = aio.Limiter(url, timeout=10.0)
            allowed += bool(await other.limit("other", "1000000/s").try_acquire("k"))
            if n % 2:
                await other.close()
        else:
            with sluicegate.Limiter(url, timeout=10.0) as plain:
                allowed += bool(plain.limit("other", "1000000/s").try_acquire("k"))
            dropped = sluicegate.Limiter(url, timeout=10.0)
            dropped.limit("other", "1000000/s").try_acquire("k")
            del dropped
    gc.collect()
    return {"allowed": allowed}


def close_under_threads() -> Counter[str]:
    outcomes: Counter[str] = Counter()
    closing = sluicegate.Limiter(url, timeout=5.0)
    shared = closing.limit("closing", "1000000/s")

    def call() -> None:
        while True:
            try:
                outcomes[shared.try_acquire("k").source] += 1
            except Exception as error:
                outcomes[outcome(error)] += 1
                return

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    closing.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a call on a closed limiter never came back"
    return outcomes


async def close_under_tasks() -> Counter[str]:
    outcomes: Counter[str] = Counter()
    closing = aio.Limiter(url, timeout=5.0)
    shared = closing.limit("closing", "1000000/s")

    async def call() -> None:
        while True:
            try:
                outcomes[(await shared.try_acquire("k")).source] += 1
            except Exception as error:
                outcomes[outcome(error)] += 1
                return

    calling = [asyncio.create_task(call()) for _ in range(tasks)]
    await asyncio.sleep(0.1)
    await closing.close()
    await asyncio.wait_for(asyncio.gather(*calling), 20)
    return outcomes


def many_threads(count: int) -> dict[str, int]:
    allowed: list[bool] = []
    together = threading.Barrier(count)

    def call() -> None:
        together.wait()
        allowed.extend(bool(limit.try_acquire("everyone")) for _ in range(10))

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"calls": len(allowed), "allowed": sum(allowed)}


async def main() -> None:
    for line in sys.stdin:
        verb, *count = line.split()
        if verb == "decide":
            done = await adecide(int(count[0])) if tasks else decide(int(count[0]))
        elif verb == "limiters":
            done = await limiters(int(count[0]))
        elif verb == "close":
            done = await close_under_tasks() if tasks else close_under_threads()
        else:
            done = many_threads(int(count[0]))
        gc.collect()
        print(json.dumps(done), flush=True)


asyncio.run(main())
