"""driver.py URL SPEC TIMEOUT_MS: for each line of input, one call with that key."""

import json
import sys
import time

import sluicegate

url, spec, timeout_ms = sys.argv[1:]
limiter = sluicegate.Limiter(url, timeout=float(timeout_ms) / 1000)
limit = limiter.limit("driven", spec)
for line in sys.stdin:
    answer = {"allowed": None, "source": None, "error": None}
    started = time.monotonic()
    try:
        decision = limit.try_acquire(line.strip())
        answer |= {"allowed": decision.allowed, "source": str(decision.source)}
    except Exception as error:
        answer["error"] = repr(error)
    print(json.dumps(answer | {"ms": (time.monotonic() - started) * 1000}), flush=True)
