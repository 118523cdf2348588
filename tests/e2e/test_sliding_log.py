"""A sliding log of a day's 70,000 admissions: how much memory it takes, and how long any call takes Redis.

The limiter's own command is read from Redis and sent again with other times, which lua/README.md
allows for tests. A script's time is Redis's own measure, from SLOWLOG.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import SOURCES, Driver, Recipe
from redis_servers import RedisServer
from resp import Resp, Word

COUNT = 70_000
DAY = 86_400_000_000
START = 1_700_000_000_000_000
MOST_BYTES, MOST_US = 16, 200
# The machine may put Redis aside in the middle of a script, or be slow for some seconds. It is not so
# every time.
TIMES, MOST_TIMES, LATER = 10, 200, 5


class Log:
    """A full log: an admission at START, and each further one `step` microseconds after the last."""

    def __init__(self, redis: Resp, command: list[Word], step: int) -> None:
        self.redis = redis
        self._command = command
        self.step = step
        self.last = START + (COUNT - 1) * step

    def call(self, key: str, at: int, verb: str = "take", cost: int = 1) -> list[Word]:
        return [*self._command[:3], key, at, verb, *self._command[6:-2], 1, cost]

    def fill(self, key: str) -> None:
        times = (START + number * self.step for number in range(COUNT))
        replies = self.redis.pipeline(self.call(key, at) for at in times)
        # After the time: how many of one call were admitted, and what is left. Eight bytes each.
        said = [struct.unpack_from(">QQ", reply, 8) for reply in replies]
        assert said == [(1, COUNT - 1 - number) for number in range(COUNT)]

    def script_us(self, at: int, verb: str, cost: int) -> int:
        """How long one call on the full log takes Redis: the least of several, more where that is slow."""
        least: list[int] = []
        while len(least) < TIMES or (min(least) > MOST_US and len(least) < MOST_TIMES):
            self.redis("DEL", "copy")
            self.redis("COPY", "full", "copy")
            self.redis("SLOWLOG", "RESET")
            self.redis(*self.call("copy", at, verb, cost))
            runs = [entry[2] for entry in self.redis("SLOWLOG", "GET", 10) if entry[3][0] == b"EVALSHA"]
            assert len(runs) == 1
            least += runs
        return min(least)


@pytest.fixture(scope="module")
def bare() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module", params=[1, DAY // COUNT], ids=["all at once", "over the day"])
def log(request: pytest.FixtureRequest, bare: RedisServer, python: Path) -> Iterator[Log]:
    with Resp(bare.port) as redis:
        redis("FLUSHALL")
        redis("CONFIG", "SET", "slowlog-log-slower-than", 0)
        driver = Recipe("python", [python, SOURCES / "driver.py"], {})
        with Driver(driver, bare.url, f"sliding-log {COUNT}/d", timeout_s=5) as calls:
            # The second time by its short name.
            assert calls.call("key")["allowed"] and calls.call("key")["allowed"]
        commands = [entry[3] for entry in redis("SLOWLOG", "GET", -1)]
        command = next(each for each in commands if each[0] == b"EVALSHA" and b"take" in each)
        assert command[4:6] == [b"", b"take"] and command[-2:] == [b"1", b"1"]
        redis("FLUSHALL")
        log = Log(redis, command, request.param)
        # While it fills, only what is too slow.
        redis("CONFIG", "SET", "slowlog-log-slower-than", MOST_US + 1, "slowlog-max-len", COUNT)
        log.fill("full")
        yield log


def test_an_admission_takes_at_most_16_bytes(log: Log) -> None:
    used = log.redis("MEMORY", "USAGE", "full", "SAMPLES", 0)
    print(f"{used / COUNT:.2f} bytes an admission, {used} in all")
    assert used <= MOST_BYTES * COUNT


def test_no_call_of_the_fill_is_slow(log: Log) -> None:
    """What makes a call slow by itself does so whenever the log is filled."""

    def slow() -> set[bytes]:
        runs = [entry for entry in log.redis("SLOWLOG", "GET", -1) if entry[3][0] == b"EVALSHA"]
        return {entry[3][4] for entry in runs}

    always = slow()
    print(f"{len(always)} of {COUNT} calls took more than {MOST_US} us the first time", end="")
    for _ in range(3):
        if not always:
            break
        log.redis("SLOWLOG", "RESET")
        log.redis("DEL", "again")
        log.fill("again")
        always &= slow()
    print(f", {len(always)} each time")
    log.redis("DEL", "again")
    assert not always


def test_no_call_on_a_full_log_is_slow(log: Log) -> None:
    log.redis("CONFIG", "SET", "slowlog-log-slower-than", 0)
    half = START + COUNT // 2 * log.step
    moments = {
        "full": log.last,
        "12 h later": log.last + DAY // 2,
        "before the first expires": START + DAY - 1,
        "the first has expired": START + DAY,
        "half has expired": half + DAY,
        "all but one have expired": log.last + DAY - 1,
        "24 h later, all have expired": log.last + DAY,
        "a week later": log.last + 7 * DAY,
        "the clock 12 h back": START - DAY // 2,
        "the clock a week back": START - 7 * DAY,
    }
    calls = [
        ("take", 1),
        ("take", COUNT // 2 + 1000),
        ("take", COUNT),
        ("peek", 1),
        ("refund", 1),
        ("refund", COUNT // 3),
        ("refund", COUNT),
        ("reset", 0),
    ]
    print(f"\nmicroseconds of Redis's time, least of {TIMES} or more")
    print(f"{'':<30}" + "".join(f"{verb + ' ' + str(cost):>14}" for verb, cost in calls))
    slow = []
    for moment, at in moments.items():
        took = [log.script_us(at, verb, cost) for verb, cost in calls]
        print(f"{moment:<30}" + "".join(f"{us:>14}" for us in took))
        slow += [(at, *calls[number]) for number, us in enumerate(took) if us > MOST_US]
    for _ in range(LATER):
        if not slow:
            break
        print(f"again after a second: {len(slow)} of them")
        time.sleep(1)
        slow = [each for each in slow if log.script_us(*each) > MOST_US]
    assert not slow
