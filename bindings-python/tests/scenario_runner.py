"""Runs one scenario of tests/scenarios, for the blocking and the asyncio verbs alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import sluicegate

SCENARIOS = Path(__file__).resolve().parents[2] / "tests" / "scenarios"
START_US = 1_000_000_000_000_000

ERRORS: dict[str, type[sluicegate.Error]] = {
    "spec": sluicegate.SpecError,
    "argument": sluicegate.ArgumentError,
    "config": sluicegate.ConfigError,
    "unsupported": sluicegate.UnsupportedError,
    "outage": sluicegate.OutageError,
    "closed": sluicegate.ClosedError,
}

Step = dict[str, Any]
Scenario = dict[str, Any]
Call = Callable[[], Any]
# Yields a call, is sent its result or the error it ended in.
Run = Generator[Call, Any, None]


def all_scenarios() -> Iterator[tuple[str, Scenario]]:
    files = sorted(file for file in SCENARIOS.glob("*.json") if file.name != "schema.json")
    for file in files:
        for scenario in json.loads(file.read_text(encoding="utf-8"))["scenarios"]:
            yield f"{file.stem}: {scenario['name']}", scenario


def micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def check(decision: sluicegate.Decision, expect: dict[str, Any], store: str, where: str) -> None:
    said = {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after_us": micros(decision.retry_after),
        "reset_after_us": micros(decision.reset_after),
        "wait_us": micros(decision.wait),
    }
    assert {field: said[field] for field in expect} == expect, where
    assert decision.source == store, where


class Runner:
    """One scenario under way."""

    def __init__(self, scenario: Scenario, limiter: Any, clock: sluicegate.ManualClock, store: str) -> None:
        self.scenario = scenario
        self.limiter = limiter
        self.clock = clock
        self.store = store
        self.now_us = START_US
        self.limits = {name: limiter.limit(name, spec) for name, spec in scenario["limits"].items()}
        self.permits: dict[str, sluicegate.Permit] = {}

    def run(self) -> Run:
        for number, step in enumerate(self.scenario["steps"], 1):
            self.advance(step.get("advance_us", 0))
            if "verb" in step:
                yield from self.step(step, f"step {number}: {step}")

    def advance(self, by_us: int) -> None:
        self.now_us += by_us
        if by_us >= 0:
            self.clock.advance(by_us / 1e6)
        else:
            self.clock.set(self.now_us / 1e6)
        assert micros(self.clock.now()) == self.now_us

    def step(self, step: Step, where: str) -> Run:
        if step["verb"] == "release":
            self.permits[step["permit"]].release()
            return
        results = []
        for _ in range(step.get("times", 1)):
            result = yield lambda: self.call(step)
            results.append(result)
        if "error" in step:
            assert isinstance(result, ERRORS[step["error"]]), (where, result)
            assert step.get("error_contains", "") in str(result), where
            return
        for result in results:
            if isinstance(result, Exception):
                raise AssertionError(where) from result
            if "expect_each" in step:
                check(result, step["expect_each"], self.store, where)
        self.check_last(step, results[-1], where)

    def check_last(self, step: Step, result: Any, where: str) -> None:
        if step["verb"] == "respec":
            self.limits[step.get("limit", "main")] = result
        elif step["verb"] == "hold":
            assert result.released is not result.decision.allowed, where
            check(result.decision, step["expect"], self.store, where)
            if "as" in step:
                self.permits[step["as"]] = result
        elif "expect" in step:
            check(result, step["expect"], self.store, where)

    def call(self, step: Step) -> Any:
        """The call, or what is to be awaited for it."""
        verb = step["verb"]
        if verb == "try_acquire_all":
            entries = [(self.limits[limit], key, cost) for limit, key, cost in step["entries"]]
            return self.limiter.try_acquire_all(entries)
        name = step.get("limit", "main")
        if verb == "respec":
            return self.limiter.limit(name, step["spec"])
        options = {
            option: step[field] / 1e6
            for option, field in (("timeout", "timeout_us"), ("max_wait", "max_wait_us"))
            if field in step
        }
        if "cost" in step:
            options["cost"] = step["cost"]
        return getattr(self.limits[name], verb)(step.get("key", "k"), **options)
