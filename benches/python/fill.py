"""Calls so often on one key, one call after the other: `fill.py URL SPEC CALLS`."""

import sys

import sluicegate

url, spec, calls = sys.argv[1:4]
limiter = sluicegate.Limiter(url)
limit = limiter.limit("bench", spec)
while limiter.limit("warm-up", "1/s").try_acquire("warm-up").source == "outage":
    pass
for _ in range(int(calls)):
    decision = limit.try_acquire("user:00042")
    if not decision or decision.source != "redis":
        sys.exit(f"not admitted by Redis: {decision}")
