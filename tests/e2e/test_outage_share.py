"""Three processes in three languages share one limit while Redis dies and comes back, again and again.

`SLUICEGATE_ROUNDS` says how often; 3 unless set.
"""

from __future__ import annotations

import os
import time

from fleet import Fleet, Load, admissions, back_after_ms, longest_ms, now
from programs import Workshop
from redis_servers import RedisServer
from report import table
from windows import SECOND, excess, fullest

ROUNDS = int(os.environ.get("SLUICEGATE_ROUNDS", "3"))
RATE, BURST = 300, 30
OUTAGE_SECONDS, UP_SECONDS = 5.0, 2.0
BACK_MS = 2_000
LEAST_SERVED = 0.8
SCHEDULING_MS = 500


def test_rounds_of_outages(workshop: Workshop, redis: RedisServer) -> None:
    outages = []
    with Fleet() as fleet:
        for language, mode in (("python", "sync"), ("node", "async"), ("rust", "sync")):
            # Each asks for more than the whole limit.
            load = Load(redis.url, f"{RATE}/s burst {BURST}", tasks=4, pause_us=8_000, keys=1)
            fleet.add(workshop.recipe(language, "load"), mode, load)
        fleet.go()
        for _ in range(ROUNDS):
            time.sleep(UP_SECONDS)
            killed = now()
            redis.kill()
            time.sleep(OUTAGE_SECONDS)
            returned = now()
            redis.restart()
            outages.append((killed, returned, now()))
        time.sleep(UP_SECONDS)
        fleet.stop()
    wrong = []
    calls = [call for process in fleet.processes for call in process.calls]
    rows = table(
        f"Redis killed for {OUTAGE_SECONDS:g} s: three processes at {RATE}/s burst {BURST}",
        *("round", "admitted", "of the rate", "fullest second", f"of {RATE + BURST}", "fullest window"),
        *("back after ms (python, node, rust)", "longest ms", "errors"),
    )
    for number, (killed, returned, restarted) in enumerate(outages, start=1):
        of_outage = [call for call in calls if killed <= call.start and call.end <= returned]
        spans = admissions(of_outage)
        served = len(spans) / (RATE * (returned - killed) / SECOND)
        second, over = fullest(spans), excess(spans, RATE, BURST)
        backs = [back_after_ms(process.calls, restarted) for process in fleet.processes]
        errors = sum(call.failed for call in of_outage)
        longest = longest_ms(of_outage)
        rows.row(
            *(number, len(spans), f"{served:.1%}", second, f"{second / (RATE + BURST):.1%}", f"{over:+.1f}"),
            *(" ".join("never" if back is None else f"{back:.0f}" for back in backs), longest, errors),
        )
        if second > RATE + BURST or over > 0:
            wrong.append(f"round {number}: {second} admissions in a second, {over:+.1f} in a window")
        if served < LEAST_SERVED:
            wrong.append(f"round {number}: {served:.1%} of the rate was served")
        if any(back is None or back > BACK_MS for back in backs):
            wrong.append(f"round {number}: back on Redis after {backs} ms")
        if errors or longest > 100 + SCHEDULING_MS:
            wrong.append(f"round {number}: {errors} errors, longest call {longest} ms")
    assert not wrong, "\n".join(wrong)
