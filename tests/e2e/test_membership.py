"""A fleet of ten thousand: what its heartbeats cost Redis, and that nobody is forgotten."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import artefacts
from programs import SOURCES
from redis_servers import RedisServer
from report import table
from resp import Resp

FLEET = 10_000
# Where so many live, each shows a sign of life every 10 s, and is gone after 30 s.
LIFETIME_US = 30_000_000
KEYS = ("sg:members:{sg}", "sg:heartbeats:{sg}")
WATCHED_SECONDS = 6.0


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
    watcher = subprocess.Popen(
        [python, SOURCES / "idle_member.py", redis.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watcher.stdin and watcher.stdout
        standing = json.loads(watcher.stdout.readline())
        time.sleep(WATCHED_SECONDS)
        beats, usec = script_runs(redis)
        counted = int(redis.command("ZCARD", KEYS[1]))
    finally:
        watcher.communicate(timeout=30)
    a_second = (beats - 2) / WATCHED_SECONDS * FLEET
    table(
        f"a fleet of {FLEET} processes",
        *("one more counts", "Redis counts", "heartbeats of one, joining with 2", "us each", "of all, a second"),
    ).row(standing["processes"], counted, f"{beats} in {WATCHED_SECONDS:g} s", usec, a_second)
    # Two as it joins, and one may come early; every second, as in a small fleet, it would be eight.
    assert beats <= 3
    assert standing["processes"] == counted == FLEET + 1
    assert standing["rank"] == FLEET
