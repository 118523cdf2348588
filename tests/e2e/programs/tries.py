"""tries.py URL SPEC TIMES: waits for a line of input, then prints how many tries were admitted."""

import sys

import sluicegate

url, spec, times = sys.argv[1:]
limit = sluicegate.Limiter(url, timeout=10.0).limit("tries", spec)
sys.stdin.readline()
print(sum(limit.try_acquire("everyone").allowed for _ in range(int(times))))
