"""listener.py blocking|aio URL: prints what is logged, until the store is back."""

import asyncio
import logging
import sys
import time

import sluicegate
from sluicegate import aio

LEVELS = {"INFO": ["up", "back"], "WARNING": ["out"]}
told: list[str] = []


class Prints(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        kind = next(kind for kind in LEVELS[record.levelname] if kind not in told)
        told.append(kind)
        print(kind, flush=True)


logger = logging.getLogger("sluicegate")
logger.addHandler(Prints())
logger.setLevel(logging.INFO)
way, url = sys.argv[1:]


def blocking() -> None:
    limiter = sluicegate.Limiter(url, timeout=5.0)
    while "back" not in told:
        limiter.status()
        time.sleep(0.01)


async def awaited() -> None:
    async with aio.Limiter(url, timeout=5.0) as limiter:
        # One call; from then on the loop is woken.
        await limiter.limit("listened", "10/s").try_acquire("key")
        while "back" not in told:
            await asyncio.sleep(0.01)


if way == "aio":
    asyncio.run(awaited())
else:
    blocking()
