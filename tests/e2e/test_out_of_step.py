"""Replies that are not those of the calls: no answer is ever taken for that of another call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from fault_proxy import OUT_OF_STEP, FaultProxy
from programs import Driver, Workshop
from redis_servers import RedisServer


@pytest.fixture
def proxy(redis: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(redis.port) as proxy:
        yield proxy


def from_redis(driver: Driver, key: str) -> dict[str, Any]:
    """Calls until Redis decides again."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        answer = driver.call(key)
        assert answer["error"] is None, answer
        if answer["source"] == "redis":
            return answer
        time.sleep(0.02)
    raise AssertionError("decisions did not come from Redis again")


# Of plain calls and of those that an event loop waits for: they go different ways.
@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("kind", OUT_OF_STEP)
def test_no_reply_answers_another_call(
    workshop: Workshop, proxy: FaultProxy, language: str, kind: str
) -> None:
    """Two keys in turn, one used up and the other not: each goes on getting its own answers."""
    recipe = workshop.recipe(language, "driver")
    with Driver(recipe, proxy.url, "fixed-window 20/h", timeout_s=0.3) as calls:
        for _ in range(20):
            from_redis(calls, "used up")
        for _ in range(2):
            calls.call("free")
            proxy.fault("garbage", kind=kind)
            calls.call("free")
            proxy.heal()
            for _ in range(2):
                from_redis(calls, "waiting")
                assert calls.call("free")["allowed"] is True
                time.sleep(0.11)  # else a remembered refusal would answer
                assert calls.call("used up")["allowed"] is False
