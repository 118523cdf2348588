"""The ruler by which the fault tests measure, against counting every window one by one."""

from __future__ import annotations

import random

from windows import Span, excess, fullest


def counted(spans: list[Span], count: int, burst: int, period: int) -> float:
    windows = [(0, 0), *((start, end) for start, _ in spans for _, end in spans if start <= end)]
    return max(
        sum(s >= start and e <= end for s, e in spans) - count * (end - start) / period - burst
        for start, end in windows
    )


def test_the_worst_window_is_the_worst_of_all() -> None:
    chance = random.Random(4)
    for _ in range(300):
        spans = [
            (start, start + chance.randrange(6))
            for start in (chance.randrange(40) for _ in range(chance.randrange(1, 14)))
        ]
        count, burst, period = chance.randrange(1, 4), chance.randrange(1, 6), chance.randrange(1, 9)
        assert abs(excess(spans, count, burst, period) - counted(spans, count, burst, period)) < 1e-9, spans


def test_one_admission_too_many_is_seen() -> None:
    paced = [(n * 100_000, n * 100_000 + 50) for n in range(50)]
    assert excess(paced, 10, 1) <= 0
    assert excess([*paced, (2_000_000, 2_000_001)], 10, 1) > 0
    assert fullest(paced) == 10
    assert fullest([*paced, (2_000_000, 2_000_001)]) == 11
