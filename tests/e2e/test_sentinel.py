"""The master that sentinels name, in each language, and its failover under load."""

from __future__ import annotations

import threading
import time

import pytest
from programs import Driver, Recipe
from redis_cluster import RedisSentinel, until

SPEC = "100000/s burst 100000"
BUDGET_S = 1.0
# How late a machine that is busy with other work may run us.
SCHEDULING_S = 1.0


def states(server_keys: str) -> int:
    return len([key for key in server_keys.splitlines() if key.startswith("sg:token-bucket")])


def test_the_master_is_found_and_decides(driver: Recipe) -> None:
    with RedisSentinel() as redis, Driver(driver, redis.url, "10/h", timeout_s=BUDGET_S) as calls:
        answers = [calls.call("key") for _ in range(11)]
        assert [answer["allowed"] for answer in answers] == [True] * 10 + [False]
        assert {answer["source"] for answer in answers[:10]} == {"redis"}
        assert states(redis.master.command("KEYS", "*")) == 1


class Load:
    """Calls on new keys all the time, until it is stopped: a key shows where it was written."""

    def __init__(self, calls: Driver) -> None:
        self._calls = calls
        self._stop = threading.Event()
        self.answers: list[tuple[float, dict[str, object]]] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for number in range(1_000_000):
            if self._stop.is_set():
                return
            answer = self._calls.call(f"key:{number}")
            self.answers.append((time.monotonic(), answer))

    def decided_by_redis_since(self, moment: float) -> bool:
        return any(at > moment and answer["source"] == "redis" for at, answer in self.answers)


@pytest.mark.parametrize("fault", ["cut off", "asked to step down"])
def test_a_stale_master_gets_no_call_after_the_switch(driver: Recipe, fault: str) -> None:
    with RedisSentinel() as redis, Driver(driver, redis.url, SPEC, timeout_s=BUDGET_S) as calls:
        with Load(calls) as load:
            until("Redis decides", lambda: load.decided_by_redis_since(0.0))
            if fault == "cut off":
                # It stays silent for the sentinels, and wakes up as the master that it was.
                redis.master.stop()
            else:
                redis.sentinels[0].command("SENTINEL", "FAILOVER", redis.name)
            redis.wait_for_switch(redis.replica.port)
            switched = time.monotonic()
            until("the new master decides", lambda: load.decided_by_redis_since(switched + 0.2))
            if fault == "cut off":
                # Nobody tells it for a moment that it is not the master any more.
                for sentinel in redis.sentinels:
                    sentinel.stop()
                redis.master.cont()
            before = redis.master.command("INFO", "commandstats")
            time.sleep(1.0)
            after = redis.master.command("INFO", "commandstats")
            late = time.monotonic()
            until("Redis still decides", lambda: load.decided_by_redis_since(late))
        for name in ("cmdstat_evalsha", "cmdstat_eval"):
            ran = [
                line for text in (before, after) for line in text.splitlines() if line.startswith(name + ":")
            ]
            assert len(set(ran)) <= 1, ran
        errors = [answer for _, answer in load.answers if answer["error"] is not None]
        slowest = max(float(str(answer["ms"])) for _, answer in load.answers)
        here = sum(answer["source"] == "outage" for _, answer in load.answers)
        print(
            f"{driver.language}, {fault}: {len(load.answers)} calls, {len(errors)} errors, "
            f"slowest {slowest:.0f} ms, {here} decided here, 0 on the stale master after the switch"
        )
        assert not errors
        assert slowest <= (BUDGET_S + SCHEDULING_S) * 1000
