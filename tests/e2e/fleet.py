"""Processes in several languages that call all the time and write down every call."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from programs import Recipe
from redis_servers import die_with_parent
from windows import Span

# Every way in which a language calls.
WAYS = (
    ("python", "sync"),
    ("python", "async"),
    ("node", "async"),
    ("c", "sync"),
    ("rust", "sync"),
    ("rust", "async"),
)
END_SECONDS = 30.0


def now() -> int:
    """CLOCK_MONOTONIC in microseconds, as the processes write it down."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True)
class Call:
    start: int
    end: int
    key: int
    # "redis" admitted, "-redis" refused, "!outage" failed: see programs/load.py.
    outcome: str

    @property
    def admitted(self) -> bool:
        return self.outcome[0] not in "-!"

    @property
    def failed(self) -> bool:
        return self.outcome[0] == "!"

    @property
    def source(self) -> str:
        return self.outcome.lstrip("-!")


@dataclass(frozen=True)
class Load:
    """What a process does: so many tasks or threads, each with a pause between its calls."""

    url: str
    spec: str
    prefix: str = "sg"
    on_outage: str = "share"
    timeout_ms: int = 100
    tasks: int = 6
    pause_us: int = 8_000
    keys: int = 3

    def arguments(self, mode: str) -> list[str]:
        numbers = (self.timeout_ms, self.tasks, self.pause_us, self.keys)
        return [self.url, self.prefix, self.spec, self.on_outage, *map(str, numbers), mode]


class Process:
    """One process of a fleet: started at once, calling from `go` to `stop`."""

    def __init__(self, recipe: Recipe, mode: str, load: Load) -> None:
        self.name = f"{recipe.language} {mode}"
        self.load = load
        self.calls: list[Call] = []
        self._process = subprocess.Popen(
            recipe.line(*load.arguments(mode)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=recipe.environment(),
            preexec_fn=die_with_parent,
            text=True,
        )

    def ready(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n", f"{self.name} did not start"

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def stop(self) -> list[Call]:
        """Ends the process and returns its calls in order of their start."""
        out, _ = self._process.communicate(timeout=END_SECONDS)
        assert self._process.returncode == 0, f"{self.name} ended with {self._process.returncode}"
        self.calls = sorted((Call(*row) for row in json.loads(out)), key=lambda call: call.start)
        assert self.calls, f"{self.name} made no call"
        return self.calls

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.close()


class Fleet:
    """Processes that begin and end together; none outlives the `with` block."""

    def __init__(self) -> None:
        self.processes: list[Process] = []

    def add(self, recipe: Recipe, mode: str, load: Load) -> Process:
        process = Process(recipe, mode, load)
        self.processes.append(process)
        return process

    def go(self) -> None:
        for process in self.processes:
            process.ready()
        for process in self.processes:
            process.go()

    def stop_one(self, process: Process) -> None:
        """Ends one of them before the others; its calls are kept."""
        process.stop()
        self.processes.remove(process)

    def crash(self, process: Process) -> None:
        """SIGKILL; what it did is lost."""
        process.kill()
        self.processes.remove(process)

    def stop(self) -> None:
        failures: list[BaseException] = []

        def stop(process: Process) -> None:
            try:
                process.stop()
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=stop, args=(process,)) for process in self.processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()


def admissions(calls: Iterable[Call], since: int = 0, until: int | None = None) -> list[Span]:
    """The spans of the admissions whose calls lie wholly between."""
    return [
        (call.start, call.end)
        for call in calls
        if call.admitted and call.start >= since and (until is None or call.end <= until)
    ]


def by_key(calls: Sequence[Call]) -> Iterator[list[Call]]:
    for key in sorted({call.key for call in calls}):
        yield [call for call in calls if call.key == key]


def longest_ms(calls: Iterable[Call]) -> float:
    return max((call.end - call.start for call in calls), default=0) / 1000


def back_after_ms(calls: Iterable[Call], since: int) -> float | None:
    """How long after `since` the first call that began then was decided by Redis; None: none was."""
    ends = [call.end for call in calls if call.start >= since and call.outcome.endswith("redis")]
    return (min(ends) - since) / 1000 if ends else None
