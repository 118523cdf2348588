"""The master that sentinels name, in each language, and its failover under load."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from driven_load import BUDGET_S, loads_on
from programs import Driver, Recipe
from redis_cluster import RedisSentinel
from redis_servers import RedisServer

SPEC = "100000/s burst 100000"


@pytest.fixture(scope="module")
def watched() -> Iterator[RedisSentinel]:
    with RedisSentinel() as servers:
        yield servers


def test_the_master_is_found_and_decides(driver: Recipe, watched: RedisSentinel) -> None:
    with Driver(driver, watched.url, "10/h", timeout_s=BUDGET_S) as calls:
        answers = [calls.call(driver.language) for _ in range(11)]
        assert [answer["allowed"] for answer in answers] == [True] * 10 + [False]
        assert {answer["source"] for answer in answers[:10]} == {"redis"}
        assert f"{{{driver.language}}}" in watched.master.command("KEYS", "*")


def scripts_run(server: RedisServer) -> list[str]:
    lines = server.command("INFO", "commandstats").splitlines()
    return [line for line in lines if line.startswith("cmdstat_eval")]


@pytest.mark.parametrize("fault", ["cut off", "asked to step down"])
def test_a_stale_master_gets_no_call_after_the_switch(recipes: dict[str, Recipe], fault: str) -> None:
    with RedisSentinel() as redis:
        with loads_on(recipes, redis.url, SPEC, lambda who, number: f"{who}:{number}") as loads:
            loads.wait_for_redis()
            if fault == "cut off":
                # It stays silent for the sentinels, and wakes up as the master that it was.
                redis.master.stop()
            else:
                redis.sentinels[0].command("SENTINEL", "FAILOVER", redis.name)
            redis.wait_for_switch(redis.replica.port)
            loads.wait_for_redis()
            if fault == "cut off":
                # Nobody tells it for a moment that it is not the master any more.
                for sentinel in redis.sentinels:
                    sentinel.stop()
                redis.master.cont()
            # What was under way when the sentinels told of it comes to its end.
            time.sleep(0.1)
            before = scripts_run(redis.master)
            time.sleep(1.0)
            after = scripts_run(redis.master)
            loads.wait_for_redis()
        print(f"{fault}: scripts run on the stale master after the switch: before {before}, after {after}")
        loads.check_calls(fault)
        assert before == after
