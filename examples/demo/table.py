"""What the demo shows while it runs: a live table on a terminal, a line a second elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from workers import Worker

COLUMNS = ("process", "admitted", "refused", "redis", "deny-cache", "outage", "threw", "longest", "now")
ROW = "{:<15} {:>9} {:>9} {:>9} {:>11} {:>8} {:>6} {:>10}  {}"


class Display:
    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._live = sys.stdout.isatty()
        self._drawn = 0
        self._next_line = 0.0

    def show(self, elapsed: float, phase: str, bound: int) -> None:
        """The state `elapsed` seconds into the run; `bound` is what all may have admitted by now."""
        if self._live:
            self._redraw(self._table(elapsed, phase, bound))
        elif elapsed >= self._next_line:
            self._next_line += 1.0
            print(self._line(elapsed, phase, bound), flush=True)

    def _admitted(self) -> int:
        return sum(len(worker.admissions) for worker in self._workers)

    def _line(self, elapsed: float, phase: str, bound: int) -> str:
        now = " ".join(f"{worker.name}={worker.source_now}" for worker in self._workers)
        return f"{elapsed:5.1f} s  {phase:<11} admitted {self._admitted():>5}  bound {bound:>5}  {now}"

    def _table(self, elapsed: float, phase: str, bound: int) -> list[str]:
        lines = [f"{elapsed:5.1f} s   {phase}", ROW.format(*COLUMNS)]
        sums = [0] * 6
        for worker in self._workers:
            by_source = worker.by_source()
            decided = [by_source.get(source, 0) for source in COLUMNS[3:6]]
            counts = [len(worker.admissions), sum(worker.refused.values()), *decided, worker.errors]
            sums = [a + b for a, b in zip(sums, counts, strict=True)]
            lines.append(ROW.format(worker.name, *counts, f"{worker.longest_ms:.1f} ms", worker.source_now))
        lines.append(ROW.format("sum", *sums, "", ""))
        lines.append(
            f"bound of the sum by now, rate x time + burst (a second one once Redis is back empty): {bound}"
        )
        return lines

    def _redraw(self, lines: Sequence[str]) -> None:
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)
