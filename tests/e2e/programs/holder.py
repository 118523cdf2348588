"""holder.py URL SPEC TASKS: tasks that hold a permit for a moment, again and again, until the input ends.

With 0 tasks it holds one permit for good. Prints `enter ID TIME` once a permit is held and
`exit ID TIME` before it is released, in nanoseconds of CLOCK_MONOTONIC.
"""

import asyncio
import os
import random
import sys
import time
from typing import Any

from sluicegate import aio


def say(word: str, held: str) -> None:
    print(word, held, time.monotonic_ns(), flush=True)


async def hold_often(limit: Any, task: int, over: asyncio.Event) -> None:
    number = 0
    while not over.is_set():
        async with limit.hold("everyone", timeout=0.5) as decision:
            if decision:
                number += 1
                held = f"{os.getpid()}.{task}.{number}"
                say("enter", held)
                await asyncio.sleep(random.uniform(0.02, 0.2))
                say("exit", held)


async def main(url: str, spec: str, tasks: str) -> None:
    async with aio.Limiter(url, timeout=5.0, on_outage="deny") as limiter:
        limit = limiter.limit("seats", spec)
        over = asyncio.Event()
        if tasks == "0":
            permit = await limit.hold("everyone", timeout=10.0)
            assert permit.decision
            say("enter", str(os.getpid()))
        running = [asyncio.create_task(hold_often(limit, task, over)) for task in range(int(tasks))]
        await asyncio.to_thread(sys.stdin.read)
        over.set()
        await asyncio.gather(*running)


asyncio.run(main(*sys.argv[1:]))
