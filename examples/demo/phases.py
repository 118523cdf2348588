"""Which admission belongs to which phase, what each phase may admit, and the verdicts.

An admission was decided between the start and the end of its call, and nobody outside can say
when. It belongs to the phase in which its call ended. The window of a phase is stretched to
the start of its earliest call and the end of its latest: all its admissions were then decided
inside the window, and the bound, rate x window + burst, needs no allowance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

STEADY_SHARE = 0.95


@dataclass(frozen=True)
class Admission:
    start: float
    end: float
    source: str


@dataclass
class Phase:
    """A part of the run, from `start` to `end` (seconds since the epoch)."""

    name: str
    start: float
    end: float
    # From when on at least 95% of the rate must be admitted; None: not asked.
    steady_from: float | None = None
    admissions: list[Admission] = field(default_factory=list)

    def window(self) -> float:
        start = min([self.start, *(a.start for a in self.admissions)])
        end = max([self.end, *(a.end for a in self.admissions)])
        return end - start

    def bound(self, rate: float, burst: int) -> int:
        return math.floor(rate * self.window() + burst)

    def steady(self, rate: float) -> float | None:
        """Which part of the rate was admitted once the phase had settled."""
        if self.steady_from is None:
            return None
        passed = sum(self.steady_from <= a.end <= self.end for a in self.admissions)
        return passed / (rate * (self.end - self.steady_from))

    def verdict(self, rate: float, burst: int) -> tuple[bool, str]:
        total, bound, steady = len(self.admissions), self.bound(rate, burst), self.steady(rate)
        holds = total <= bound and (steady is None or steady >= STEADY_SHARE)
        text = f"{self.name}: TOTAL admitted {total} bound {bound}"
        if steady is not None:
            text += f"  steady {steady:.1%} of the rate"
        return holds, f"{text}  {'OK' if holds else 'FAIL'}"


def attribute(phases: Sequence[Phase], admissions: Iterable[Admission]) -> None:
    """Gives each admission to the phase in which its call ended; the last takes what came after."""
    for admission in admissions:
        later = [phase for phase in phases[1:] if phase.start <= admission.end]
        (later[-1] if later else phases[0]).admissions.append(admission)


def worst_window(admissions: Iterable[Admission], rate: float, burst: int) -> float:
    """By how many admissions the fullest of all windows passes rate x length + burst; <= 0 is well."""
    ordered = sorted(admissions, key=lambda a: a.start)
    worst = -float(burst)
    for first, opening in enumerate(ordered):
        ends = sorted(a.end for a in ordered[first:])
        for count, end in enumerate(ends, start=1):
            worst = max(worst, count - rate * (end - opening.start) - burst)
    return worst
