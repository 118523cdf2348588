"""A process forks: parent and child both go on deciding, each by its own means."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# In processes of their own: pytest's would come along into the child.
PRELUDE = """
import asyncio, os, signal, sys, time
import sluicegate
from sluicegate import aio

signal.alarm(60)
URL, PREFIX = sys.argv[1:]

def finish(child):
    _, status = os.waitpid(child, 0)
    assert status == 0, status

def forked(work):
    child = os.fork()
    if child:
        return child
    try:
        signal.alarm(60)
        work()
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
"""
BLOCKING = """
limiter = sluicegate.Limiter(URL, prefix=PREFIX, timeout=5.0)
limit = limiter.limit("fork", "1000/h")
slow = sluicegate.Limiter().limit("slow", "50/s burst 1")

def work():
    for _ in range(20):
        assert limit.try_acquire("k").source == SOURCE
    for _ in range(3):
        assert slow.acquire("k", timeout=10.0)

SOURCE = limit.try_acquire("k").source
assert SOURCE == URL.split(":")[0]
work()
child = forked(lambda: (work(), finish(forked(work))))
work()
finish(child)
work()
assert limit.peek("k").remaining == 1000 - 1 - 20 * (5 if SOURCE == "redis" else 3)
"""
NEW_LOOPS = """
limiter = aio.Limiter(URL, prefix=PREFIX, timeout=5.0)
limit = limiter.limit("fork", "100000/h")
slow = aio.Limiter().limit("slow", "1000/s burst 1")

async def work():
    for _ in range(5):
        decisions = await asyncio.gather(*[limit.try_acquire("k") for _ in range(20)])
        assert {decision.source for decision in decisions} == {URL.split(":")[0]}
    assert all(await asyncio.gather(*[slow.acquire("k") for _ in range(20)]))

asyncio.run(work())
child = forked(lambda: asyncio.run(work()))
asyncio.run(work())
finish(child)
asyncio.run(work())
"""
# The child inherits a loop with calls in flight, uses one of its own, and drops what it inherited.
IN_FLIGHT = (
    NEW_LOOPS
    + """
import gc
waiting = aio.Limiter().limit("waiting", "20/s burst 1")

async def fork_amid():
    tasks = [asyncio.create_task(waiting.acquire("k")) for _ in range(10)]
    tasks += [asyncio.create_task(limit.try_acquire("k")) for _ in range(50)]
    await asyncio.sleep(0)
    def in_child():
        asyncio._set_running_loop(None)
        asyncio.run(work())
        for task in tasks:
            task._log_destroy_pending = False
        tasks.clear()
        gc.collect()
        asyncio.run(work())
    child = forked(in_child)
    assert all(await asyncio.gather(*tasks))
    return child

finish(asyncio.run(fork_amid()))
asyncio.run(work())
"""
)
# The child goes on with the parent's own loop object: its answers come by a descriptor of its own.
SAME_LOOP = (
    NEW_LOOPS
    + """
loop = asyncio.new_event_loop()
loop.run_until_complete(work())
child = forked(lambda: loop.run_until_complete(work()))
finish(child)
loop.run_until_complete(work())
loop.close()
"""
)
MULTIPROCESSING = """
import multiprocessing
limiter = sluicegate.Limiter(URL, prefix=PREFIX, timeout=5.0)
limit = limiter.limit("fork", "fixed-window 1000000/h")
limit.try_acquire("k")

def work(_):
    return sum(limit.try_acquire("k").source == URL.split(":")[0] for _ in range(50))

with multiprocessing.get_context("fork").Pool(4) as pool:
    assert pool.map(work, range(8)) == [50] * 8
"""
# A permit is the parent's; the child's copy of it gives nothing back.
PERMIT = """
limiter = sluicegate.Limiter(URL, prefix=PREFIX, timeout=5.0)
limit = limiter.limit("fork", "concurrency 1 ttl 60s")
permit = limit.hold("k")
assert permit.decision.allowed

def drop():
    global permit
    permit.release()
    del permit
    time.sleep(0.2)

finish(forked(drop))
time.sleep(0.1)
assert limit.peek("k").remaining == 0
permit.release()
deadline = time.monotonic() + 20
while limit.peek("k").remaining == 0:
    assert time.monotonic() < deadline
    time.sleep(0.01)
"""
PROGRAMS = {
    "blocking": BLOCKING,
    "new loops": NEW_LOOPS,
    "calls in flight": IN_FLIGHT,
    "the same loop": SAME_LOOP,
    "multiprocessing": MULTIPROCESSING,
    "a permit": PERMIT,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_fork(program: str, url: str, prefix: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PRELUDE + PROGRAMS[program], url, prefix]
    for _ in range(int(os.environ.get("SLUICEGATE_TEST_FORKS", "3"))):
        done = subprocess.run([*command[:-1], f"{prefix}-{_}"], capture_output=True, text=True, timeout=90)
        assert (done.returncode, done.stderr) == (0, "")
