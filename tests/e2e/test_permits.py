"""Permits over several processes, one of which is killed while it holds one."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from programs import SOURCES, Recipe
from redis_servers import RedisServer

SECOND = 1_000_000_000
PERMITS, TTL = 5, 2
SPEC = f"concurrency {PERMITS} ttl {TTL}s"


@pytest.fixture
def holders(python: Path, node: Path) -> Mapping[str, Recipe]:
    shutil.copy(SOURCES / "holder.mjs", node)
    return {
        "python": Recipe("python", [python, SOURCES / "holder.py"], {}),
        "node": Recipe("node", ["node", node / "holder.mjs"], {}),
    }


@contextlib.contextmanager
def holding(recipe: Recipe, redis: RedisServer, tasks: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        recipe.line(redis.url, SPEC, str(tasks)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=recipe.environment(),
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_enter(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    word, _, at = process.stdout.readline().split()
    assert word == "enter"
    return int(at)


def steps(output: str) -> list[tuple[int, int]]:
    """When one more permit was held, and when one fewer."""
    lines = [line.split() for line in output.splitlines()]
    assert {word for word, _, _ in lines} == {"enter", "exit"}
    return [(int(at), 1 if word == "enter" else -1) for word, _, at in lines]


def held_after(changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """How many are held after each change, in order of time; who leaves in a moment leaves first."""
    ordered = sorted(changes)
    held = itertools.accumulate(change for _, change in ordered)
    return [(at, count) for (at, _), count in zip(ordered, held, strict=True)]


@pytest.mark.parametrize("victim", ["python", "node"])
def test_a_killed_holder_is_replaced(victim: str, holders: Mapping[str, Recipe], redis: RedisServer) -> None:
    with contextlib.ExitStack() as running:
        dying = running.enter_context(holding(holders[victim], redis, tasks=0))
        entered = first_enter(dying)
        # Twelve who want the four other permits, in four processes.
        recipes = [holders["python"], holders["python"], holders["node"], holders["node"]]
        others = [running.enter_context(holding(recipe, redis, tasks=3)) for recipe in recipes]
        # Longer than a permit lasts unless it is renewed.
        time.sleep(TTL + 1.5)
        dying.kill()
        dying.wait()
        killed = time.monotonic_ns()
        time.sleep(TTL + 2)
        outputs = [process.communicate(timeout=30)[0] for process in others]
        assert [process.returncode for process in others] == [0] * len(others)

    changes = [change for output in outputs for change in steps(output)]
    with_victim = held_after([*changes, (entered, 1), (killed, -1)])
    most = max(count for _, count in with_victim)
    assert most == PERMITS
    # Nobody else got the victim's place while it lived, and somebody did soon after.
    replaced = [at for at, count in held_after(changes) if count == PERMITS]
    after = (replaced[0] - killed) / SECOND
    print(f"{len(changes) // 2} permits; {PERMITS} held again {after:.2f} s after the kill")
    assert killed < replaced[0] <= killed + (TTL + 1) * SECOND
