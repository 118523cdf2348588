"""A daily quota survives an outage: what was spent before it, and during it, is spent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import LANGUAGES, SOURCES, Driver, Running, Workshop
from redis_servers import RedisServer
from report import table

QUOTA, BEFORE, DURING = 10_000, 4_000, 1_000
DAY = 86_400
ALGORITHMS = ("fixed-window", "token-bucket", "gcra", "sliding-window", "sliding-log")
TITLE = f"daily quota of {QUOTA}: {BEFORE} spent, then {DURING} while Redis was dead"
OUTAGE_SECONDS = 1.5
BACK_SECONDS = 20.0


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    # What was written reaches the kernel before the reply, which outlives a SIGKILL.
    with RedisServer(persist=True, options=["--appendfsync", "no"]) as server:
        yield server


class Spender(Running):
    """A process that spends from a quota as it is told."""

    def __init__(self, python: Path, *arguments: str) -> None:
        super().__init__([python, SOURCES / "quota.py", *arguments])

    def spend(self, units: int, source: str) -> None:
        assert self.ask(f"spend {units}") == {"allowed": units, "sources": {source: units}}

    def spend_all(self) -> int:
        """Spends until Redis refuses; returns how much that was."""
        spent = 0
        until = time.monotonic() + BACK_SECONDS
        while time.monotonic() < until:
            answer = self.ask("spend 100")
            spent += int(answer["allowed"])
            if answer["sources"] == {"redis": 100} and answer["allowed"] < 100:
                return spent
        raise AssertionError(f"after {spent} units Redis has not refused")

    def left(self) -> int:
        """What Redis says is left, once it decides."""
        until = time.monotonic() + BACK_SECONDS
        while (seen := self.ask("peek"))["source"] != "redis":
            assert time.monotonic() < until, "decisions did not come from Redis again"
            time.sleep(0.02)
        return int(seen["remaining"])


def over_an_outage(spenders: list[Spender], redis: RedisServer) -> None:
    """Each spends before an outage and in it; returns when Redis is back."""
    for spender in spenders:
        spender.spend(BEFORE, "redis")
    redis.kill()
    for spender in spenders:
        # Its connection's end is noticed, and calls are decided by the share.
        until = time.monotonic() + BACK_SECONDS
        while spender.ask("peek")["source"] != "outage":
            assert time.monotonic() < until
        spender.spend(DURING, "outage")
    time.sleep(OUTAGE_SECONDS)
    redis.restart()


def test_exactly_the_rest_is_left(python: Path, redis: RedisServer) -> None:
    """By a clock that stands still, so that nothing is refilled."""
    rows = table(TITLE, "limit", "left", "seen by another", "two heartbeats later", "then spent")
    rest = QUOTA - BEFORE - DURING
    wrong = []
    with contextlib.ExitStack() as running:

        def open_each() -> list[Spender]:
            # Each with a prefix of its own, so that its share is the whole limit.
            lines = [(redis.url, f"{name} {QUOTA}/day", name, "1700000000") for name in ALGORITHMS]
            return [running.enter_context(Spender(python, *line)) for line in lines]

        spenders = open_each()
        over_an_outage(spenders, redis)
        left = [spender.left() for spender in spenders]
        # Other processes, that know of no debts, see the same; and so it stays.
        others = open_each()
        seen = [other.left() for other in others]
        time.sleep(2.0)
        for number, name in enumerate(ALGORITHMS):
            later, spent = others[number].left(), spenders[number].spend_all()
            rows.row(f"{name} {QUOTA}/day", left[number], seen[number], later, spent)
            if (left[number], seen[number], later, spent) != (rest, rest, rest, rest):
                wrong.append(name)
    assert not wrong


def test_a_bucket_by_the_clock(python: Path, redis: RedisServer) -> None:
    """The same by Redis's own clock: besides, only what has refilled since is left."""
    started = time.time()
    with Spender(python, redis.url, f"{QUOTA}/day", "sg") as spender:
        over_an_outage([spender], redis)
        left = spender.left()
        refilled = (time.time() - started) * QUOTA / DAY
        table(TITLE).row(f"{QUOTA}/day, {refilled:.2f} refilled at most", left, "", "", "")
    assert QUOTA - BEFORE - DURING <= left <= QUOTA - BEFORE - DURING + refilled


def test_four_languages_spend_one_quota(workshop: Workshop, redis: RedisServer) -> None:
    with contextlib.ExitStack() as running:
        drivers = []
        for language in LANGUAGES:
            recipe = workshop.recipe(language, "driver")
            drivers.append(
                running.enter_context(Driver(recipe, redis.url, f"fixed-window {QUOTA}/day", timeout_s=1.0))
            )

        def spend(units: int, source: str) -> None:
            for number in range(units):
                answer = drivers[number % len(drivers)].call("tenant")
                assert (answer["allowed"], answer["source"]) == (True, source), (number, answer)

        def all_decided_by(source: str) -> None:
            until = time.monotonic() + BACK_SECONDS
            for driver in drivers:
                while driver.call("another")["source"] != source:
                    assert time.monotonic() < until
                    time.sleep(0.02)

        all_decided_by("redis")
        # A heartbeat, so that each knows of the others.
        time.sleep(1.5)
        spend(BEFORE, "redis")
        redis.kill()
        all_decided_by("outage")
        spend(DURING, "outage")
        time.sleep(OUTAGE_SECONDS)
        redis.restart()
        all_decided_by("redis")
        spent, refused = 0, 0
        while refused < 10 * len(drivers):
            for driver in drivers:
                answer = driver.call("tenant")
                assert answer["error"] is None, answer
                spent += answer["allowed"]
                refused += not answer["allowed"] and answer["source"] != "outage"
        assert spent == QUOTA - BEFORE - DURING
