"""A program ends while calls are in flight: no crash, no hang, no word."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRELUDE = """
import asyncio, os, socket, sys, threading
import sluicegate
from sluicegate import aio
silent = socket.create_server(("127.0.0.1", 0))  # takes connections and says nothing
URL = os.environ.get("SLUICEGATE_TEST_REDIS") or f"redis://127.0.0.1:{silent.getsockname()[1]}"
"""

# A hundred tasks that wait, for their turn or for the store; each program leaves in another way.
IN_FLIGHT = """
async def start():
    waiting = aio.Limiter().limit("waiting", "1/h")
    asked = aio.Limiter(URL, prefix="exit", timeout=5.0).limit("asked", "1000000/s")
    tasks = [asyncio.create_task(waiting.acquire("k")) for _ in range(50)]
    tasks += [asyncio.create_task(asked.try_acquire(f"k{number}")) for number in range(50)]
    await asyncio.sleep(0)
    return tasks
"""
WAYS = {
    "main returns": "asyncio.run(start())",
    "answers come": """
async def main():
    tasks = await start()
    await asyncio.sleep(0.002)
asyncio.run(main())""",
    "sys.exit": """
async def main():
    tasks = await start()
    sys.exit(0)
asyncio.run(main())""",
    "loop left open": """
loop = asyncio.new_event_loop()
for task in loop.run_until_complete(start()):
    task._log_destroy_pending = False""",
    "loop closed under the tasks": """
loop = asyncio.new_event_loop()
for task in loop.run_until_complete(start()):
    task._log_destroy_pending = False
loop.close()""",
    "daemon thread": """
async def main():
    tasks = await start()
    ready.set()
    await asyncio.gather(*tasks)
ready = threading.Event()
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
ready.wait()""",
    "daemon threads that block": """
waiting = sluicegate.Limiter().limit("waiting", "1/h")
waiting.try_acquire("k")
for _ in range(10):
    threading.Thread(target=waiting.acquire, args=("k",), daemon=True).start()
while waiting.peek("k").retry_after < 3600 * 5:
    pass""",
}
TIMES = int(os.environ.get("SLUICEGATE_TEST_EXITS", "10"))


@pytest.mark.parametrize("way", WAYS)
def test_exit_with_calls_in_flight(way: str) -> None:
    program = PRELUDE + IN_FLIGHT + WAYS[way]
    for _ in range(TIMES):
        command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
