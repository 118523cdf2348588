"""waiter.py URL SPEC: `join N` has waiter N wait its turn, `cancel N` has it give up.

Prints `ready`, and `N TIME` for each waiter whose turn came, in nanoseconds of CLOCK_MONOTONIC. Ends when its
input has ended and nobody waits any more.
"""

import asyncio
import sys
import time

from sluicegate import aio


async def main(url: str, spec: str) -> None:
    limit = aio.Limiter(url, timeout=10.0).limit("queue", spec)
    waiters: dict[str, asyncio.Task[None]] = {}

    async def wait(number: str) -> None:
        assert await limit.acquire("everyone")
        print(number, time.monotonic_ns(), flush=True)

    await limit.peek("nobody")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, number = line.split()
        if verb == "join":
            waiters[number] = asyncio.create_task(wait(number))
        else:
            waiters[number].cancel()
    for ended in await asyncio.gather(*waiters.values(), return_exceptions=True):
        assert ended is None or isinstance(ended, asyncio.CancelledError), ended


asyncio.run(main(*sys.argv[1:]))
