"""load.py URL PREFIX SPEC ON_OUTAGE TIMEOUT_MS TASKS PAUSE_US KEYS sync|async: calls all the time.

Says `ready`, begins at a line of input, ends with the input, and then prints every call as JSON:
start and end (CLOCK_MONOTONIC, microseconds), the key's number, and what came of it: the source of an
admission, "-" and the source of a refusal, "!" and the kind of an error.
"""

import asyncio
import json
import sys
import threading
import time

import sluicegate
from sluicegate import aio

url, prefix, spec, on_outage, timeout_ms, tasks, pause_us, keys, mode = sys.argv[1:]
library = aio if mode == "async" else sluicegate
limiter = library.Limiter(url, prefix=prefix, on_outage=on_outage, timeout=float(timeout_ms) / 1000)
limit = limiter.limit("load", spec)
pause = float(pause_us) / 1e6
calls: list[tuple[int, int, int, str]] = []
over = threading.Event()


def now() -> int:
    return time.monotonic_ns() // 1000


def note(started: int, key: int, decision: sluicegate.Decision) -> None:
    calls.append((started, now(), key, ("" if decision.allowed else "-") + decision.source))


def failed(started: int, key: int, error: Exception) -> None:
    kind = "outage" if isinstance(error, sluicegate.OutageError) else repr(error)
    calls.append((started, now(), key, "!" + kind))


def call_all_the_time(key: int) -> None:
    while not over.is_set():
        key = (key + 1) % int(keys)
        started = now()
        try:
            note(started, key, limit.try_acquire(f"key:{key}"))
        except Exception as error:
            failed(started, key, error)
        time.sleep(pause)


async def acall_all_the_time(key: int) -> None:
    while not over.is_set():
        key = (key + 1) % int(keys)
        started = now()
        try:
            note(started, key, await limit.try_acquire(f"key:{key}"))
        except Exception as error:
            failed(started, key, error)
        await asyncio.sleep(pause)


async def all_tasks() -> None:
    await asyncio.gather(*(acall_all_the_time(n) for n in range(int(tasks))))
    await limiter.close()


def wait_for_the_end() -> None:
    sys.stdin.read()
    over.set()


print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=wait_for_the_end, daemon=True).start()
if mode == "async":
    asyncio.run(all_tasks())
else:
    threads = [threading.Thread(target=call_all_the_time, args=(n,)) for n in range(int(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    limiter.close()
print(json.dumps(calls))
