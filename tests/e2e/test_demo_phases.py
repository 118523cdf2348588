"""The demo's bookkeeping: an admission too many is seen, and no honest run is blamed."""

from __future__ import annotations

from phases import Admission, Phase, attribute, worst_window

RATE, BURST = 10, 5


def phases() -> list[Phase]:
    return [Phase("a", 0.0, 5.0, steady_from=1.0), Phase("b", 5.0, 10.0)]


def test_the_bound_is_met_but_not_passed() -> None:
    full = [Admission(t / 55 * 5, t / 55 * 5, "redis") for t in range(55)]
    both = phases()
    attribute(both, full)
    assert both[0].verdict(RATE, BURST) == (
        True,
        "a: TOTAL admitted 55 bound 55  steady 110.0% of the rate  OK",
    )
    attribute(both, [Admission(4.9, 4.9, "redis")])
    holds, text = both[0].verdict(RATE, BURST)
    assert not holds and text.endswith("FAIL")


def test_too_little_in_steady_state_fails() -> None:
    both = phases()
    attribute(both, [Admission(t / 9, t / 9, "redis") for t in range(45)])
    assert both[0].verdict(RATE, BURST)[0] is False


def test_a_call_across_the_border_belongs_to_its_end_and_stretches_the_window() -> None:
    both = phases()
    attribute(both, [Admission(4.75, 5.25, "outage"), Admission(9.75, 10.25, "outage")])
    assert [len(phase.admissions) for phase in both] == [0, 2]
    assert both[1].window() == 5.5
    assert both[1].bound(RATE, BURST) == 60


def test_the_worst_window() -> None:
    steady = [Admission(t / RATE, t / RATE, "redis") for t in range(100)]
    assert worst_window(steady, RATE, BURST) <= 1 - BURST + 1e-9
    crowd = [Admission(3.0, 3.0, "redis")] * 10
    assert worst_window(steady + crowd, RATE, BURST) > 0
