"""Waiters in a Python and a Node process stand in one queue."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from programs import SOURCES, Recipe
from redis_servers import RedisServer
from resp import Resp

SECOND = 1_000_000_000
PACE = 180_000_000  # nanoseconds from one turn to the next
SPECS = ["10/1800ms burst 1", "gcra 10/1800ms burst 1", "leaky-bucket 10/1800ms queue 30"]
# How much later than its turn a waiter may go on a machine that is busy with other work.
LATE = 1.5 * SECOND
# The clock that turns are counted by is not the one that is looked at here.
EARLY = 5_000_000


class Queue:
    """Waiters that join one after the other, by turns in each process."""

    def __init__(self, processes: list[subprocess.Popen[str]], redis: Resp) -> None:
        self._processes = processes
        self._redis = redis
        self.joined: list[int] = []

    def join(self) -> None:
        """One more waiter; returns when its turn is taken in Redis."""
        number = len(self.joined)
        self.joined.append(time.monotonic_ns())
        self._tell_and_see(number, "join")

    def cancel(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._tell(number, "cancel")

    def cancel_the_last(self, number: int) -> None:
        """Returns when its turn is given back in Redis."""
        self._tell_and_see(number, "cancel")

    def went(self) -> dict[int, int]:
        """Who got a turn and when, in this order, once all have gone or given up."""
        outputs = [process.communicate(timeout=30)[0] for process in self._processes]
        assert [process.returncode for process in self._processes] == [0, 0]
        turns = [line.split() for output in outputs for line in output.splitlines()]
        return dict(sorted(((int(number), int(at)) for number, at in turns), key=lambda turn: turn[1]))

    def _tell(self, number: int, verb: str) -> None:
        stdin = self._processes[number % len(self._processes)].stdin
        assert stdin is not None
        stdin.write(f"{verb} {number}\n")
        stdin.flush()

    def _tell_and_see(self, number: int, verb: str) -> None:
        before = self._taken()
        self._tell(number, verb)
        until = time.monotonic() + 10
        # The key may also end in the meantime, when all turns have come.
        while self._taken() in (None, before):
            assert time.monotonic() < until, f"{verb} {number} changed nothing in Redis"

    def _taken(self) -> object:
        """The state of the key, which every turn that is taken or given back changes."""
        keys = self._redis("KEYS", "*{everyone}")
        return self._redis("GET", keys[0]) if keys else None


@pytest.fixture
def queue(python: Path, node: Path, redis: RedisServer) -> Iterator[Callable[[str], Queue]]:
    shutil.copy(SOURCES / "waiter.mjs", node)
    recipes = [
        Recipe("python", [python, SOURCES / "waiter.py"], {}),
        Recipe("node", ["node", node / "waiter.mjs"], {}),
    ]
    with contextlib.ExitStack() as cleanup:

        def start(spec: str) -> Queue:
            processes = []
            for recipe in recipes:
                process = subprocess.Popen(
                    recipe.line(redis.url, spec),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=recipe.environment(),
                    text=True,
                )
                cleanup.callback(process.kill)
                processes.append(process)
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            return Queue(processes, cleanup.enter_context(Resp(redis.port)))

        yield start


def went_at_turns(waiters: Queue, turns: Mapping[int, int]) -> None:
    """These went and nobody else, none before its turn, which keeps the order, and none late.

    Only on a machine so busy that a process is woken later than the pace may the order in which two
    processes see their turns be another.
    """
    went = waiters.went()
    first = went[0]
    lateness = {number: (at - first) / SECOND - turns[number] * PACE / SECOND for number, at in went.items()}
    print({number: f"{late * 1000:.1f} ms late" for number, late in lateness.items()})
    assert set(went) == set(turns)
    for number, at in went.items():
        assert at >= waiters.joined[0] + turns[number] * PACE - EARLY, (number, lateness)
        assert at <= first + turns[number] * PACE + LATE, (number, lateness)
    if max(lateness.values()) < PACE / SECOND:
        assert list(went) == sorted(turns, key=lambda number: turns[number])


@pytest.mark.parametrize("spec", SPECS)
def test_waiters_are_served_in_order(spec: str, queue: Callable[[str], Queue]) -> None:
    waiters = queue(spec)
    for _ in range(12):
        waiters.join()
    went_at_turns(waiters, {number: number for number in range(12)})


@pytest.mark.parametrize("spec", SPECS)
def test_the_middle_half_gives_up(spec: str, queue: Callable[[str], Queue]) -> None:
    """The others go at their own turns, and newcomers behind them."""
    waiters = queue(spec)
    for _ in range(12):
        waiters.join()
    waiters.cancel(range(3, 9))
    for _ in range(2):
        waiters.join()
    went_at_turns(waiters, {number: number for number in [0, 1, 2, *range(9, 14)]})


@pytest.mark.parametrize("spec", SPECS)
def test_the_last_half_gives_up(spec: str, queue: Callable[[str], Queue]) -> None:
    """Newcomers get their turns, where the last gives up first: nobody has passed them."""
    waiters = queue(spec)
    for _ in range(12):
        waiters.join()
    for number in range(11, 5, -1):
        waiters.cancel_the_last(number)
    for _ in range(2):
        waiters.join()
    turns = {number: number for number in range(6)}
    went_at_turns(waiters, {**turns, 12: 6, 13: 7})
