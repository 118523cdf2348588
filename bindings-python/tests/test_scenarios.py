"""Every scenario, by the blocking verbs and by those of asyncio."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import sluicegate
import sluicegate.aio
from scenario_runner import Runner, Scenario, all_scenarios

every_scenario = pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=name) for name, scenario in all_scenarios()]
)


@every_scenario
def test_blocking(scenario: Scenario, store: str, url: str, prefix: str) -> None:
    clock = sluicegate.ManualClock()
    with sluicegate.Limiter(url, prefix=prefix, timeout=5.0, deny_cache=0.0, clock=clock) as limiter:
        run = Runner(scenario, limiter, clock, store).run()
        result: Any = None
        while True:
            try:
                call = run.send(result)
            except StopIteration:
                break
            try:
                result = call()
            except sluicegate.Error as error:
                result = error


@every_scenario
def test_asyncio(scenario: Scenario, store: str, url: str, prefix: str) -> None:
    async def main() -> None:
        clock = sluicegate.ManualClock()
        options: dict[str, Any] = {"prefix": prefix, "timeout": 5.0, "deny_cache": 0.0, "clock": clock}
        async with sluicegate.aio.Limiter(url, **options) as limiter:
            run = Runner(scenario, limiter, clock, store).run()
            result: Any = None
            while True:
                try:
                    call = run.send(result)
                except StopIteration:
                    break
                try:
                    result = call()
                    if inspect.isawaitable(result):
                        result = await result
                except sluicegate.Error as error:
                    result = error

    asyncio.run(main())
