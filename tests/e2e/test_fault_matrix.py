"""Every fault of the proxy, in every language, in every way to call: no error, no late call, no admission
too many, and Redis decides again when the fault is gone.

The processes of a fault run at once, behind one proxy, each with a prefix and so a limit of its own: its
share in an outage is the whole limit, and what it admits must keep to the limit in every window. On the way
back to Redis it may pass rate x 0.1 s more, as README's table of guarantees says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fault_proxy import FaultProxy
from fleet import WAYS, Fleet, Load, Process, admissions, back_after_ms, by_key, longest_ms, now
from programs import Workshop
from redis_servers import RedisServer
from report import table
from windows import excess

# Of each key. The processes ask for several times as much.
RATE, BURST = 40, 20
BUDGET_MS = 100
# How late a machine that is busy with other work may run us. A hang takes seconds.
SCHEDULING_MS = 500
HEALTHY_SECONDS, FAULT_SECONDS, HEALED_SECONDS = 1.0, 2.5, 2.8
# Shorter than it takes to give a connection up: what was late comes after all.
SHORT_SECONDS = 1.0
RETURN_SECONDS = 0.1
# A try that began in a black hole ends after 1 s, and the next begins within 0.6 s.
BACK_MS = 2_500

FAULTS: dict[str, tuple[str, dict[str, float]]] = {
    "delay 20 ms": ("delay", {"seconds": 0.01, "requests": 0.01}),
    "delay 2 s": ("delay", {"seconds": 1.0, "requests": 1.0}),
    "drop": ("drop", {}),
    "cut": ("cut", {"every": 3}),
    "black hole": ("black_hole", {}),
    "black hole, refusing": ("refuse", {}),
    "freeze": ("freeze", {}),
    "short freeze": ("freeze", {}),
    "slow drip": ("drip", {"seconds": 0.09}),
    "garbage": ("garbage", {"every": 2}),
}
# Under these, Redis comes and goes.
FLAPPING = ("cut", "garbage")
# One that raises beside those that share, each time another.
RAISING = dict(zip(FAULTS, [*WAYS, *WAYS], strict=False))


def judge(process: Process, fault: str, healed: int) -> Iterator[str]:
    """Writes a row of the table and says what was wrong."""
    calls = process.calls
    raising = process.load.on_outage == "raise"
    errors = [call for call in calls if call.failed]
    longest = longest_ms(calls)
    allowance = RATE * RETURN_SECONDS
    before = max(excess(admissions(of_key, until=healed), RATE, BURST) for of_key in by_key(calls))
    over = max(excess(admissions(of_key), RATE, BURST) for of_key in by_key(calls))
    back = back_after_ms(calls, healed)
    rows = table(
        f"faults of {FAULT_SECONDS:g} s: keys of {RATE}/s burst {BURST}, a budget of {BUDGET_MS} ms",
        *("fault", "process", "on_outage", "calls", "in outage", "errors", "longest ms", "admitted"),
        *("above the limit", f"with the return (most {allowance:g})", "back after ms"),
    )
    local = sum(call.source == "outage" for call in calls)
    rows.row(
        *(fault, process.name, process.load.on_outage, len(calls), local, len(errors), longest),
        *(len(admissions(calls)), f"{before:+.1f}", f"{over:+.1f}", "never" if back is None else back),
    )
    if longest > BUDGET_MS + SCHEDULING_MS:
        yield f"the longest call took {longest:.0f} ms"
    if before > (allowance if fault in FLAPPING else 0):
        yield f"a window before the return holds {before:.2f} admissions more than {RATE}/s burst {BURST}"
    if over > allowance:
        yield f"a window holds {over:.1f} admissions more than {RATE}/s burst {BURST}"
    if back is None or back > BACK_MS:
        yield f"decisions came from Redis again after {back} ms"
    if not raising and errors:
        yield f"{len(errors)} calls failed, as by {errors[0].outcome}"
    if {call.outcome for call in errors} - {"!outage"}:
        yield f"errors other than of an outage: { {call.outcome for call in errors} }"
    if raising and any(call.start > healed + BACK_MS * 1000 for call in errors):
        yield "calls failed long after the fault was gone"
    if raising and local != len(errors):
        yield f"{local - len(errors)} calls were decided here"
    if not local and fault != "delay 20 ms":
        yield "no call noticed the fault"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(fault: str, workshop: Workshop, redis: RedisServer) -> None:
    name, options = FAULTS[fault]
    with FaultProxy(redis.port) as proxy, Fleet() as fleet:
        cells = [(way, "share") for way in WAYS] + [(RAISING[fault], "raise")]
        for number, ((language, mode), on_outage) in enumerate(cells):
            load = Load(
                proxy.url, f"{RATE}/s burst {BURST}", f"cell{number}", on_outage, timeout_ms=BUDGET_MS
            )
            fleet.add(workshop.recipe(language, "load"), mode, load)
        fleet.go()
        time.sleep(HEALTHY_SECONDS)
        proxy.fault(name, **options)
        time.sleep(SHORT_SECONDS if fault == "short freeze" else FAULT_SECONDS)
        proxy.heal()
        healed = now()
        time.sleep(HEALED_SECONDS)
        fleet.stop()
    wrong = [
        f"{process.name}, {process.load.on_outage}: {what}"
        for process in fleet.processes
        for what in judge(process, fault, healed)
    ]
    assert not wrong, "\n".join([fault, *wrong])
