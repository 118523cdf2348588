"""threads.py URL SPEC TIMEOUT_MS: for each line of input, one call with that key on a thread of its own."""

import json
import sys
import threading

import sluicegate

url, spec, timeout_ms = sys.argv[1:]
limit = sluicegate.Limiter(url, timeout=float(timeout_ms) / 1000, deny_cache=0).limit("threads", spec)


def call(key: str) -> None:
    decision = limit.try_acquire(key)
    print(json.dumps({"allowed": decision.allowed, "source": decision.source}), flush=True)


for line in sys.stdin:
    threading.Thread(target=call, args=(line.strip(),)).start()
