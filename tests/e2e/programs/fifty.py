"""fifty.py URL fork|spawn: fifty children of a warm process, five at a time; each decides and ends.

Prints what came of them, and this process's descriptors and threads after the first ten and after all.
"""

import json
import multiprocessing
import os
import sys
from pathlib import Path

import sluicegate

URL, WAY = sys.argv[1:]
SPEC = "fixed-window 100000/h"
limiter = sluicegate.Limiter(URL, timeout=10.0)
limit = limiter.limit("fifty", SPEC)


def child() -> None:
    for _ in range(10):
        decision = limit.try_acquire("everyone")
        assert decision.allowed and decision.source == "redis", decision


def resources() -> list[int]:
    return [len(list(Path(f"/proc/{os.getpid()}/{what}").iterdir())) for what in ("fd", "task")]


if __name__ == "__main__":
    context = multiprocessing.get_context(WAY)
    codes: list[int | None] = []
    counted = []
    child()
    while len(codes) < 50:
        children = [context.Process(target=child) for _ in range(5)]
        for process in children:
            process.start()
        child()
        for process in children:
            process.join(60)
            codes.append(process.exitcode)
            process.close()
        if len(codes) in (10, 50):
            counted.append(resources())
    print(json.dumps({"codes": codes, "counted": counted, "left": limit.peek("everyone").remaining}))
