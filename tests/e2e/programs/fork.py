"""fork.py URL: uses a limiter, forks, and goes on deciding on both sides."""

import os
import sys

import sluicegate

limiter = sluicegate.Limiter(sys.argv[1], timeout=10.0)
limit = limiter.limit("forked", "1000/h")


def decide(times: int) -> None:
    for _ in range(times):
        decision = limit.try_acquire("everyone")
        assert decision.allowed, decision
        assert decision.source == sys.argv[2], decision


decide(10)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        decide(10)
        sys.exit(0)
    children.append(child)
decide(10)
for child in children:
    assert os.waitpid(child, 0)[1] == 0, "a child failed"
print(limit.peek("everyone").remaining)
