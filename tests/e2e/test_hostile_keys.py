"""Whatever stands in a key or a name: it stays a key, in its own place behind the prefix."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from programs import SOURCES
from redis_servers import RedisServer
from resp import Resp

# What the client and the scripts need, whatever the keys are.
COMMANDS = {
    "hello", "client|setinfo", "client|setname", "ping", "select", "auth", "eval", "evalsha", "time",
    "get", "set", "del", "pexpire", "pttl", "llen", "lindex", "ltrim", "rpush", "lset", "rpop", "lrange",
    "zadd", "zrem", "zcard", "zcount", "zrange", "zrevrange", "zrangebyscore", "zremrangebyscore", "zscore",
    "zrank", "info", "keys", "type", "dbsize", "script|load",
}  # fmt: skip
ALGORITHMS = "token-bucket|gcra|leaky-bucket|fixed-window|sliding-window|sliding-log|concurrency"
PLACE = r"{prefix}:({algorithms}):[^{{}}:# ]+(#\d)?:{{[^{{}}]+}}"


@pytest.mark.parametrize("prefix", ["sg", "sg:gcra", "*", "a%7B"])
def test_no_key_leaves_its_place(python: Path, redis: RedisServer, prefix: str) -> None:
    canaries = {b"canary": b"sings", b"*": b"star", b"sg": b"prefix", b"x": b"x"}
    with Resp(redis.port) as resp:
        for key, value in canaries.items():
            resp("SET", key, value)
        resp("CONFIG", "RESETSTAT")
        line = [str(python), str(SOURCES / "hostile_keys.py"), redis.url, prefix]
        done = subprocess.run(line, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr[-2000:]
        stats = resp("INFO", "commandstats").decode()

        taken = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(taken) == 71
        assert sum(len(pairs) for _, pairs in taken) > 2000
        for name, pairs in taken:
            # The first call found its key unused, the second found it used: no key has a state with another.
            assert pairs == [[True, False]] * len(pairs), name

        place = re.compile(PLACE.format(prefix=re.escape(prefix), algorithms=ALGORITHMS))
        own = {f"{prefix}:{what}:{{{prefix}}}" for what in ("members", "heartbeats")}
        for raw in set(resp("KEYS", "*")) - set(canaries):
            key = raw.decode()
            assert key.isprintable() or "\u2028" in key, key
            assert place.fullmatch(key) or key in own, key
            assert len(raw) < 600
        assert {key: resp("GET", key) for key in canaries} == canaries
    used = set(re.findall(r"^cmdstat_([^:]+):", stats, flags=re.MULTILINE))
    assert {"evalsha", "get", "set", "zadd"} <= used
    assert used - {"config|resetstat"} <= COMMANDS, used - COMMANDS
