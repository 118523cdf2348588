"""quota.py URL SPEC PREFIX [START]: for each line of input, does it and prints what came of it as JSON.

"spend N": so many calls, one after the other. "peek": what is left. With START, by a clock that stands
still there; else by Redis's own.
"""

import json
import sys
from collections import Counter

import sluicegate

url, spec, prefix, *start = sys.argv[1:]
clock = sluicegate.ManualClock(float(start[0])) if start else None
quota = sluicegate.Limiter(url, prefix=prefix, clock=clock, timeout=1.0, deny_cache=0).limit("quota", spec)
for line in sys.stdin:
    verb, *count = line.split()
    if verb == "spend":
        decisions = [quota.try_acquire("tenant") for _ in range(int(count[0]))]
        sources = Counter(str(decision.source) for decision in decisions)
        print(json.dumps({"allowed": sum(map(bool, decisions)), "sources": sources}), flush=True)
    else:
        seen = quota.peek("tenant")
        print(json.dumps({"remaining": seen.remaining, "source": seen.source}), flush=True)
