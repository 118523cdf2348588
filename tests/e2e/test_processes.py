"""How a process that uses a limiter forks and ends."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from programs import SOURCES
from redis_servers import RedisServer

SECONDS = 60


def run(*words: str | Path) -> str:
    """Runs a program that must end by itself, without a word on stderr."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.strip()


def test_python_forks_on_redis(python: Path, redis: RedisServer) -> None:
    # Ten calls before, ten in each of four processes after; a little may have been refilled.
    remaining = int(run(python, SOURCES / "fork.py", redis.url, "redis"))
    assert 950 <= remaining <= 960


def test_python_forks_in_memory(python: Path) -> None:
    assert 980 <= int(run(python, SOURCES / "fork.py", "memory://", "memory")) <= 990


@pytest.mark.parametrize("way", ["return", "exit", "stop"])
def test_asyncio_program_ends_with_calls_in_flight(python: Path, redis: RedisServer, way: str) -> None:
    """Fifty times; no crash, no hang."""
    for attempt in range(50):
        line = [str(python), str(SOURCES / "exit_in_flight.py"), redis.url, way]
        done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, (attempt, done)
        assert "panicked" not in done.stderr and "Fatal" not in done.stderr, (attempt, done)


def test_asyncio_program_ends_while_redis_is_frozen(python: Path, redis: RedisServer) -> None:
    redis.stop()
    run(python, SOURCES / "exit_in_flight.py", redis.url, "return")


@pytest.mark.parametrize("program", ["idle.mjs", "idle.cjs"])
@pytest.mark.parametrize("store", ["memory", "redis", "nobody"])
def test_idle_node_process_ends(node: Path, redis: RedisServer, program: str, store: str) -> None:
    if store == "nobody":
        redis.kill()
    shutil.copy(SOURCES / program, node)
    assert run("node", node / program, "memory://" if store == "memory" else redis.url) == "true"
