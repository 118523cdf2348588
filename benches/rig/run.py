"""Runs the races."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from redis_servers import RedisServer

from rig.process import Process
from rig.races import EVALSHA, GET, Group, Race, Round, counts, rate
from rig.server import Floor, Monitor, spent

# A round in which somebody decided otherwise than measured, as when the machine stood still for
# longer than a call's budget, is run again so often.
TRIES = 4


def race(
    race: Race, redis: RedisServer, rounds: int, seconds: float, say: Callable[[str], None]
) -> list[dict[str, dict[str, Any]]]:
    """The outcome of each round, by contender."""
    outcomes: list[dict[str, dict[str, Any]]] = []
    redis.command("FLUSHALL")
    with contextlib.ExitStack() as stack:
        runners: dict[str, Process | Floor] = {}
        for contender in race.contenders:
            runners[contender.name] = stack.enter_context(Process(contender))
        if race.floors:
            runners |= _floors(redis, runners[race.contenders[0].name])
        names = list(runners)
        for number in range(rounds):
            shift = number % len(names)
            outcome = {}
            for name in names[shift:] + names[:shift]:
                outcome[name] = _round(race, redis, name, runners[name], seconds)
            outcomes.append(outcome)
            rates = [
                f"{name} {rate(outcome, name):,.0f}/s" if counts(outcome, name) else f"{name} does not count"
                for name in outcome
            ]
            say(f"{race.name} {number + 1}/{rounds}: " + ", ".join(rates))
    return outcomes


def _floors(redis: RedisServer, runner: Process | Floor) -> dict[str, Floor]:
    """`redis-benchmark` with the very command that a contender sends."""
    monitor = Monitor(redis)
    runner.round(0.01)
    commands = [words for words in monitor.close() if words[:1] == ["EVALSHA"] and "user:" in words[3]]
    return {EVALSHA: Floor(redis, commands[-1]), GET: Floor(redis, ["GET", "user:00042"])}


def _round(
    race: Race, redis: RedisServer, name: str, runner: Process | Floor, seconds: float
) -> dict[str, Any]:
    for _ in range(TRIES):
        monitor = Monitor(redis) if race.counted else None
        before, own_before = spent(redis), runner.cpu_us()
        one = runner.round(seconds)
        one["own_cpu_us"] = (runner.cpu_us() - own_before) / one["total"]
        used = spent(redis).since(before)
        one["script_us"] = used.script_us / one["total"]
        one["redis_cpu_us"] = used.cpu_us / one["total"]
        if monitor is not None:
            seen = [words for words in monitor.close() if any("flooded" in word for word in words)]
            # The warm-up before it is seen too.
            one["seen_per_s"] = len(seen) / one["seconds"] / (one["total"] / one["decisions"])
        if isinstance(runner, Process) and runner.contender.one_by_one:
            one["odd"] += max(0, one["total"] - int(used.scripts))
        if one["odd"] == 0:
            return one
    if isinstance(runner, Process) and runner.contender.peer:
        return one
    raise RuntimeError(f"{race.name}: {name} had {one['odd']} of {one['total']} calls decided otherwise")


def judged(group: Group, outcomes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Each claim with its median over the rounds that count, and the least and the greatest.

    Where a peer raced and none of its rounds counts, the claim has no value.
    """
    verdicts = []
    for claim in group.claims:
        rounds = outcomes[claim.race]
        peers = {name: median_rate(rounds, name) for name in claim.peers}
        peer = max(peers, key=lambda name: peers[name] or 0.0, default="")
        values = [claim.value(one, peer) for one in rounds if not peer or counts(one, peer)]
        if not values and not any(name in rounds[0] for name in claim.peers):
            continue
        verdict: dict[str, Any] = {
            "group": group.number,
            "text": claim.text,
            "at_most": claim.at_most,
            "goal": claim.goal,
            "unit": claim.unit,
            "drawn": claim.drawn and bool(values),
            "value": None,
        }
        if values:
            value = statistics.median(values)
            verdict |= {
                "value": value,
                "least": min(values),
                "greatest": max(values),
                "met": value <= claim.goal if claim.at_most else value >= claim.goal,
            }
        verdicts.append(verdict)
    return verdicts


def median_rate(outcomes: Sequence[Round], name: str) -> float | None:
    """Decisions a second, over the rounds that count."""
    rates = [rate(outcome, name) for outcome in outcomes if counts(outcome, name)]
    return statistics.median(rates) if rates else None


def medians(outcomes: Sequence[Round], name: str, field: str) -> float | None:
    values = [outcome[name].get(field) for outcome in outcomes]
    known = [float(value) for value in values if value is not None]
    return statistics.median(known) if known else None
