"""A Python process of the demo: threads that block in try_acquire.

python worker.py URL SPEC CALLS_PER_SECOND
"""

from __future__ import annotations

import sys
import threading
import time

import sluicegate
from report import Report, ready

THREADS = 2


def main() -> None:
    url, spec, pace = sys.argv[1], sys.argv[2], float(sys.argv[3])
    limiter = sluicegate.Limiter(url)
    limit = limiter.limit("demo", spec)
    report = Report()
    over = ready()

    def hammer() -> None:
        while not over.wait(THREADS / pace):
            started = time.time()
            try:
                report.call_ended(started, limit.try_acquire("everyone"))
            except Exception as error:
                report.call_ended(started, error)

    threads = [threading.Thread(target=hammer) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    while not over.wait(0.2):
        report.flush()
    for thread in threads:
        thread.join()
    limiter.close()
    report.flush()


main()
