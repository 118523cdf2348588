"""Bytes in Redis for a key, by MEMORY USAGE."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import artefacts
from redis_servers import RedisServer

from rig.build import BENCHES, Built
from rig.process import Contender, Process
from rig.races import Claim, Group, Race

LOG = 1000
# What is kept after so many calls.
OURS = {
    "token-bucket": ("token-bucket", "100/minute", 10),
    "gcra": ("gcra", "gcra 100/minute", 10),
    "gcra-fraction": ("gcra, a rate that leaves a fraction", "gcra 7/minute", 5),
    "leaky-bucket": ("leaky-bucket", "leaky-bucket 100/minute", 1),
    "fixed-window": ("fixed-window", "fixed-window 100/minute", 10),
    "sliding-window": ("sliding-window", "sliding-window 100/minute", 10),
    "sliding-log": (f"sliding-log, {LOG} admissions", f"sliding-log {LOG}/hour", LOG),
}
SET_LOG = f"a sorted set, {LOG} admissions"


def _usage(redis: RedisServer, length: int) -> tuple[int, int]:
    """The bytes of all keys: under their own names, and under names of one length."""
    own = alike = 0
    for key in redis.command("KEYS", "*").splitlines():
        if key.startswith(("sg:members:", "sg:heartbeats:")) or "warm-up" in key:
            continue
        own += int(redis.command("MEMORY", "USAGE", key, "SAMPLES", "0"))
        other = key[:4].ljust(length, "x") if length else key
        if other != key:
            redis.command("COPY", key, other, "REPLACE")
        alike += int(redis.command("MEMORY", "USAGE", other, "SAMPLES", "0"))
    return own, alike


def measure(redis: RedisServer, built: Built, peers: bool) -> dict[str, dict[str, Any]]:
    """By what is kept: its label, its bytes, and its bytes under a name as long as our token bucket's."""
    sizes: dict[str, dict[str, Any]] = {}
    length = len("sg:token-bucket:bench:{user:00042}")

    def note(name: str, label: str) -> None:
        own, alike = _usage(redis, length)
        sizes[name] = {"label": label, "bytes": own, "bytes_alike": alike}
        redis.command("FLUSHALL")

    for name, (label, spec, calls) in OURS.items():
        redis.command("FLUSHALL")
        line: list[str | Path] = [built.python, BENCHES / "python" / "fill.py", redis.url, spec, str(calls)]
        artefacts.run(line, cwd=BENCHES)
        note(name, f"sluicegate, {label}")
    if peers and built.go is not None:
        for who, label in (("redis_rate", "redis_rate"), ("go-zero", "go-zero core/limit, token limiter")):
            # It calls once for each key before it is ready: the one key of this race.
            with Process(Contender(who, label, [built.go, who, "1", redis.url.removeprefix("redis://")])):
                note(who, label)
    now = time.time_ns() // 1000
    members = [word for i in range(LOG) for word in (str(now + 977 * i),) * 2]
    redis.command("ZADD", "bench:user:00042", *members)
    note("sorted-set", SET_LOG)
    return sizes


def group(built: Built, peers: bool) -> Group:
    """The claims on what `measure` finds."""
    race = Race("bytes", "Bytes in Redis for a key (`MEMORY USAGE`)", [], "redis_rate")

    def over(ours: str, theirs: str, goal: float, label: str) -> Claim:
        def value(sizes: Any, _: str) -> float:
            return float(sizes[ours]["bytes_alike"] / sizes[theirs]["bytes_alike"])

        return Claim(race.name, f"bytes a key, {label}", True, goal, value)

    claims = [over("sliding-log", "sorted-set", 0.125, f"sliding-log over a sorted set, {LOG} admissions")]
    if peers and built.go is not None:
        claims = [
            over("token-bucket", "redis_rate", 1.0, "token-bucket over redis_rate"),
            over("gcra", "redis_rate", 1.0, "gcra over redis_rate"),
            over("gcra-fraction", "redis_rate", 1.0, "gcra with a fraction over redis_rate"),
            *claims,
        ]
    return Group("bytes", 7, [race], claims)
