"""Whether admissions kept to `rate x time + burst` in every window, and how full windows were.

An admission was decided at some moment between the start and the end of its call, and nobody outside
can say when. It counts in a window that holds its whole call, since it was then decided inside.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

# Start and end of a call, in microseconds.
Span = tuple[int, int]
SECOND = 1_000_000


def excess(spans: Sequence[Span], count: int, burst: float, period: int = SECOND) -> float:
    """By how many admissions the fullest of all windows passes count x length / period + burst.

    Where it is 0 or less, no window does.
    """
    if not spans:
        return -float(burst)
    starts = sorted(start for start, _ in spans)
    size = 1 << (len(starts) - 1).bit_length()
    # A tree over the starts. A leaf knows whether its call has ended and what a window that begins with
    # it has in hand; a node how many ended, and the fullest window that begins within it.
    ended = [0] * (2 * size)
    fullest = [-(10**30)] * (2 * size)
    used = [0] * size
    worst = -(10**30)
    for start, end in sorted(spans, key=lambda span: span[1]):
        first = bisect_left(starts, start)
        place = first + used[first]
        used[first] += 1
        node = place + size
        ended[node] = 1
        fullest[node] = period + count * start
        while node > 1:
            node //= 2
            left, right = 2 * node, 2 * node + 1
            ended[node] = ended[left] + ended[right]
            fullest[node] = max(fullest[right], fullest[left] + ended[right] * period)
        worst = max(worst, fullest[1] - count * end)
    return max(worst / period, 0) - burst


def fullest(spans: Sequence[Span], length: int = SECOND) -> int:
    """The most calls that a window of this length holds; none may be longer than it."""
    assert all(end - start <= length for start, end in spans), "a call is longer than the window"
    starts = sorted(start for start, _ in spans)
    ends = sorted(end for _, end in spans)
    return max((bisect_right(ends, s + length) - bisect_left(starts, s) for s in starts), default=0)
