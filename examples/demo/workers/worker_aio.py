"""A Python process of the demo: asyncio tasks that await try_acquire.

python worker_aio.py URL SPEC CALLS_PER_SECOND
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from report import Report, ready
from sluicegate import aio

TASKS = 2


async def run(url: str, spec: str, pace: float) -> None:
    limiter = aio.Limiter(url)
    limit = limiter.limit("demo", spec)
    report = Report()
    over: threading.Event = await asyncio.to_thread(ready)

    async def hammer() -> None:
        while not over.is_set():
            started = time.time()
            try:
                report.call_ended(started, await limit.try_acquire("everyone"))
            except Exception as error:
                report.call_ended(started, error)
            await asyncio.sleep(TASKS / pace)

    tasks = [asyncio.create_task(hammer()) for _ in range(TASKS)]
    while not over.is_set():
        await asyncio.sleep(0.2)
        report.flush()
    await asyncio.gather(*tasks)
    report.flush()


asyncio.run(run(sys.argv[1], sys.argv[2], float(sys.argv[3])))
