"""What a program sees, in each language, when Redis forgets its scripts, restarts, or freezes."""

from __future__ import annotations

import time

from programs import Driver, Recipe
from redis_servers import RedisServer

SPEC = "1000/s burst 1000"
# How late a machine that is busy with other work may run us. Bounds are upper bounds only.
SCHEDULING_MS = 500.0


def decided(driver: Driver, key: str = "key") -> str:
    """One call that must be admitted without an error; returns its source."""
    answer = driver.call(key)
    assert answer["error"] is None and answer["allowed"] is True, answer
    return str(answer["source"])


def comes_back(driver: Driver, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if decided(driver) == "redis":
            return True
        time.sleep(0.05)
    return False


def test_script_flush_costs_no_decision(driver: Recipe, redis: RedisServer) -> None:
    with Driver(driver, redis.url, SPEC, timeout_s=5) as calls:
        assert decided(calls) == "redis"
        for _ in range(3):
            redis.command("SCRIPT", "FLUSH")
            assert [decided(calls), decided(calls)] == ["redis", "redis"]


def test_restart_costs_no_decision(driver: Recipe, redis: RedisServer) -> None:
    with Driver(driver, redis.url, SPEC, timeout_s=1) as calls:
        assert decided(calls) == "redis"
        for _ in range(3):
            redis.restart()
            decided(calls)
            assert comes_back(calls)


def test_frozen_redis_costs_one_timeout(driver: Recipe, redis: RedisServer) -> None:
    timeout_s = 1.0
    with Driver(driver, redis.url, SPEC, timeout_s=timeout_s) as calls:
        assert decided(calls) == "redis"
        redis.stop()
        first = calls.call("key")
        later = [calls.call("key") for _ in range(20)]
        redis.cont()
        assert all(answer["error"] is None and answer["allowed"] for answer in [first, *later])
        assert first["source"] == "outage"
        assert first["ms"] <= timeout_s * 1000 + SCHEDULING_MS
        # Had each waited for its timeout, this would be 20 s.
        assert sum(answer["ms"] for answer in later) <= SCHEDULING_MS, later
        assert {answer["source"] for answer in later} == {"outage"}
        assert comes_back(calls)


def test_redis_that_was_never_there(driver: Recipe, redis: RedisServer) -> None:
    redis.kill()
    with Driver(driver, redis.url, SPEC, timeout_s=1) as calls:
        assert decided(calls) == "outage"
        redis.restart()
        assert comes_back(calls)


def test_back_from_an_outage_is_back_for_good(driver: Recipe, redis: RedisServer) -> None:
    with Driver(driver, redis.url, SPEC, timeout_s=1) as calls:
        for _ in range(5):
            assert decided(calls) == "redis"
            time.sleep(0.05)
        redis.kill()
        until = time.monotonic() + 20
        while decided(calls) != "outage":
            assert time.monotonic() < until
        redis.restart()
        assert comes_back(calls)
        later = []
        for _ in range(25):
            later.append(decided(calls))
            time.sleep(0.05)
        assert set(later) == {"redis"}, later
