"""A load test at one exact rate: processes in Python, Node and C share a limit and wait their turns.

    make build && PYTHONPATH=tests/tools .venv/bin/python examples/pacing/pacing.py

Prints how many requests each process sent, the sum beside what was asked for and beside what the
limit allows in the time from the word to go to the last send, and the largest gap between two
sends. The exit code is 0 if the sum is within 0.5% of what was asked for and not over the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from pathlib import Path

import artefacts
from redis_servers import RedisServer, die_with_parent

SOURCES = Path(__file__).resolve().parent / "workers"
TOLERANCE = 0.005


@dataclass(frozen=True)
class Recipe:
    """How to start a worker; URL, spec and the number of calls in flight are appended."""

    language: str
    command: Sequence[str]
    env: Mapping[str, str]


class Worker:
    """A running worker."""

    def __init__(self, name: str, recipe: Recipe, arguments: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*recipe.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **recipe.env},
            text=True,
            preexec_fn=die_with_parent,
        )

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self.name} did not start")

    def go(self, start: int, end: int) -> None:
        """Has it send from `start` to `end`, in nanoseconds of CLOCK_MONOTONIC, which all processes share."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{start} {end}\n")
        self._process.stdin.flush()

    def sends(self, seconds: float) -> list[int]:
        """Waits for its end, and returns when it sent."""
        output, _ = self._process.communicate(timeout=seconds)
        if self._process.returncode != 0:
            raise RuntimeError(f"{self.name} ended with exit code {self._process.returncode}")
        sends: list[int] = json.loads(output)
        return sends

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def install(scratch: Path) -> list[Recipe]:
    """Installs wheel, tarball and C library below `scratch`; a recipe for each language."""
    python = artefacts.python_env(scratch / "python")
    node = artefacts.node_project(scratch / "node")
    shutil.copy(SOURCES / "worker.mjs", node)
    prefix = artefacts.c_prefix(scratch / "c")
    c_worker = artefacts.compile_c(SOURCES / "worker.c", scratch / "c" / "worker", prefix)
    return [
        Recipe("python", [str(python), str(SOURCES / "worker.py")], {}),
        Recipe("node", ["node", str(node / "worker.mjs")], {}),
        Recipe("c", [str(c_worker)], artefacts.c_env(prefix)),
    ]


@dataclass(frozen=True)
class Run:
    """When a run began, and when each of its processes sent: nanoseconds of CLOCK_MONOTONIC."""

    start: int
    sends: Mapping[str, Sequence[int]]


def send_together(recipes: Sequence[Recipe], url: str, spec: str, in_flight: int, seconds: float) -> Run:
    """Starts a worker for each recipe, and has them send together."""
    with contextlib.ExitStack() as cleanup:
        workers = []
        for number, recipe in enumerate(recipes, start=1):
            workers.append(Worker(f"{number} {recipe.language}", recipe, [url, spec, str(in_flight)]))
            cleanup.callback(workers[-1].kill)
        for worker in workers:
            worker.wait_until_ready()
        start = time.monotonic_ns() + 1_000_000_000
        for worker in workers:
            worker.go(start, start + round(seconds * 1e9))
        return Run(start, {worker.name: worker.sends(seconds + 30) for worker in workers})


def report(run: Run, rate: int, burst: int, seconds: float) -> bool:
    """Prints the table; true if the sum is as expected."""
    every = sorted(moment for moments in run.sends.values() for moment in moments)
    if not every:
        print("nothing was sent")
        return False
    expected = round(rate * seconds) + burst
    lasted = (every[-1] - run.start) / 1e9
    bound = math.floor(rate * lasted) + burst
    gap = max((later - earlier for earlier, later in pairwise(every)), default=0)
    off = len(every) / expected - 1
    print(f"\n{'process':<12} {'sent':>8} {'share':>7}")
    for name, moments in run.sends.items():
        print(f"{name:<12} {len(moments):>8} {len(moments) / len(every):>7.1%}")
    print(f"{'sum':<12} {len(every):>8}")
    print(f"{'expected':<12} {expected:>8}   in {seconds:g} s; off by {off:.2%}")
    print(f"{'bound':<12} {bound:>8}   in {lasted:.3f} s, until the last send")
    print(f"{'largest gap':<12} {gap / 1e6:>8.1f} ms", flush=True)
    return abs(off) <= TOLERANCE and len(every) <= bound


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=2000, help="requests a second of all together (2000)")
    parser.add_argument("--burst", type=int, default=20, help="how many may go out at once at the start (20)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the run (10)")
    parser.add_argument("--processes", type=int, default=4, help="Python, Node, C, and so on (4)")
    parser.add_argument("--in-flight", type=int, default=200, help="calls of each process that wait (200)")
    parser.add_argument("--log", type=Path, help="write when each process sent to this JSON file")
    options = parser.parse_args()
    spec = f"{options.rate}/s burst {options.burst}"
    with tempfile.TemporaryDirectory(prefix="sluicegate-pacing-") as scratch, RedisServer() as redis:
        print("installing the wheel, the npm tarball and the C library", flush=True)
        recipes = list(islice(cycle(install(Path(scratch))), options.processes))
        print(
            f"{len(recipes)} processes, {options.in_flight} calls in flight each, one limit: {spec}",
            flush=True,
        )
        run = send_together(recipes, redis.url, spec, options.in_flight, options.seconds)
    if options.log is not None:
        options.log.write_text(json.dumps(run.sends))
    return 0 if report(run, options.rate, options.burst, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
