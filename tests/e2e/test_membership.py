"""A fleet of ten thousand: what its heartbeats cost Redis, and that nobody is forgotten."""

from __future__ import annotations

import re
import time
from pathlib import Path

import artefacts
from programs import SOURCES, Running
from redis_servers import RedisServer
from report import table
from resp import Resp

FLEET = 10_000
# Where so many live, each shows a sign of life every 10 s, and is gone after 30 s.
LIFETIME_US = 30_000_000
KEYS = ("sg:members:{sg}", "sg:heartbeats:{sg}")
WATCHED_SECONDS = 4.5


def script_runs(redis: RedisServer) -> tuple[int, float]:
    """How many scripts ran, and how many microseconds each took."""
    found = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)", redis.command("INFO", "commandstats"))
    calls, usec = (sum(int(row[n]) for row in found) for n in (0, 1))
    return calls, usec / max(calls, 1)


def fill(redis: RedisServer) -> None:
    script = (artefacts.ROOT / "lua" / "membership.lua").read_text()
    with Resp(redis.port) as link:
        digest = link("SCRIPT", "LOAD", script)
        joins = (("EVALSHA", digest, 2, *KEYS, f"{n:016x}", LIFETIME_US, "join") for n in range(FLEET))
        assert link.pipeline(joins)[-1][0] == FLEET


def test_ten_thousand_processes(python: Path, redis: RedisServer) -> None:
    fill(redis)
    # Longer than a sign of life lasts in a small fleet, and shorter than the pause between two in this one.
    time.sleep(4.0)
    redis.command("CONFIG", "RESETSTAT")
    with Running([python, SOURCES / "idle_member.py", redis.url]) as watcher:
        standing = watcher.answer()
        time.sleep(WATCHED_SECONDS)
        beats, usec = script_runs(redis)
        counted = int(redis.command("ZCARD", KEYS[1]))
    table(
        f"a fleet of {FLEET} processes, and one more",
        *("it counts", "Redis counts", "its heartbeats", "us each", "of all, a second"),
    ).row(
        *(standing["processes"], counted, f"{beats} in {WATCHED_SECONDS:g} s, 2 to join", usec),
        max(beats - 2, 0) / WATCHED_SECONDS * FLEET,
    )
    # Two as it joins, and one may come early; every second, as in a small fleet, it would be six.
    assert beats <= 3
    assert standing["processes"] == counted == FLEET + 1
    assert standing["rank"] == FLEET
