"""A Python process of the load test: asyncio tasks that each wait their turn, then send.

python worker.py URL SPEC IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from sluicegate import aio


async def run(url: str, spec: str, in_flight: int) -> None:
    async with aio.Limiter(url, timeout=5.0, on_outage="deny") as limiter:
        limit = limiter.limit("pacing", spec)
        await limit.peek("target")
        print("ready", flush=True)
        start, end = (int(word) / 1e9 for word in (await asyncio.to_thread(sys.stdin.readline)).split())
        sends: list[int] = []

        async def sender() -> None:
            await asyncio.sleep(start - time.monotonic())
            while (left := end - time.monotonic()) > 0:
                # Refused at once where the turn would come after the end.
                if not await limit.acquire("target", timeout=left):
                    return
                sends.append(time.monotonic_ns())  # here the request would go out

        await asyncio.gather(*(sender() for _ in range(in_flight)))
        print(json.dumps(sends), flush=True)


asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
