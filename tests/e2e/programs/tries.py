"""tries.py URL SPEC TIMES: waits for a line of input, then tries; prints how many were admitted, and the
sources of all decisions."""

import collections
import sys

import sluicegate

url, spec, times = sys.argv[1:]
limit = sluicegate.Limiter(url, timeout=10.0).limit("tries", spec)
sys.stdin.readline()
decisions = [limit.try_acquire("everyone") for _ in range(int(times))]
sources = collections.Counter(str(decision.source) for decision in decisions)
print(sum(decision.allowed for decision in decisions), *(f"{source}={n}" for source, n in sources.items()))
