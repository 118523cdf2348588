"""Sends the same traffic to each algorithm and prints, as JSON, what became of each call.

It needs the wheel and nothing else. The clock is a manual one, so the answer is always the same.
"""

from __future__ import annotations

import json

from sluicegate import Limiter, ManualClock, Permit

# Tenths of a second at which a call comes: little, a burst around 10 s, little, then too much for good.
LITTLE = [*range(0, 85, 20), *range(125, 200, 15)]
BURST = [*range(85, 115)]
TOO_MUCH = [*range(200, 350, 4)]
ARRIVALS = sorted(LITTLE + BURST + TOO_MUCH)
HELD = 30  # Tenths of a second for which a permit of the concurrency limit is held.

SPECS = [
    "token-bucket 10/10s",
    "token-bucket 10/10s burst 3",
    "gcra 10/10s",
    "leaky-bucket 10/10s queue 5",
    "fixed-window 10/10s",
    "sliding-window 10/10s",
    "sliding-log 10/10s",
]
PERMITS = "concurrency 3 ttl 60s"


def rate(spec: str) -> list[tuple[float, float | None]]:
    """For each call, in seconds: when it came, and when it went on, None if it was refused."""
    clock = ManualClock(0)
    limit = Limiter(clock=clock).limit("picture", spec)
    calls: list[tuple[float, float | None]] = []
    for arrival in ARRIVALS:
        now = arrival / 10
        clock.set(now)
        # A leaky bucket is for callers who wait.
        waits = spec.startswith("leaky-bucket")
        decision = limit.reserve("key") if waits else limit.try_acquire("key")
        calls.append((now, now + decision.wait if decision else None))
    return calls


def permits(spec: str) -> list[tuple[float, float | None]]:
    """The same for a concurrency limit, where each call that goes on holds its permit for a while."""
    clock = ManualClock(0)
    limit = Limiter(clock=clock).limit("picture", spec)
    calls: list[tuple[float, float | None]] = []
    held: list[tuple[int, Permit]] = []
    for arrival in ARRIVALS:
        while held and held[0][0] <= arrival:
            held.pop(0)[1].release()
        clock.set(arrival / 10)
        permit = limit.hold("key")
        if permit.decision:
            held.append((arrival + HELD, permit))
        calls.append((arrival / 10, arrival / 10 if permit.decision else None))
    return calls


if __name__ == "__main__":
    print(json.dumps({spec: rate(spec) for spec in SPECS} | {PERMITS: permits(PERMITS)}))
