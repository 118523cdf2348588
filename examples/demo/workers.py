"""The processes of the demo: how each language's worker is made from the installed parts, and run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import artefacts
from phases import Admission

SOURCES = Path(__file__).resolve().parent / "workers"


@dataclass(frozen=True)
class Recipe:
    """How to start a worker; URL, spec and pace are appended."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]


def install(scratch: Path, rust_worker: Path) -> list[Recipe]:
    """Installs wheel, tarball and C library below `scratch`; two Python, two Node, two C and one Rust."""
    python = artefacts.python_env(scratch / "python")
    node = artefacts.node_project(scratch / "node")
    (node / "worker.mjs").write_text((SOURCES / "worker.mjs").read_text())
    prefix = artefacts.c_prefix(scratch / "c")
    c_worker = artefacts.compile_c(SOURCES / "worker.c", scratch / "c" / "worker", prefix)
    recipes = [
        Recipe("python-threads", [str(python), str(SOURCES / "worker.py")], {}),
        Recipe("python-asyncio", [str(python), str(SOURCES / "worker_aio.py")], {}),
    ]
    recipes += [Recipe(f"node-{n}", ["node", str(node / "worker.mjs")], {}) for n in (1, 2)]
    recipes += [Recipe(f"c-{n}", [str(c_worker)], artefacts.c_env(prefix)) for n in (1, 2)]
    return [*recipes, Recipe("rust", [str(rust_worker)], {})]


def _add(counts: dict[str, int], more: Mapping[str, int]) -> dict[str, int]:
    for source, count in more.items():
        counts[source] = counts.get(source, 0) + count
    return counts


def _sources(admissions: Sequence[Admission]) -> Counter[str]:
    return Counter(admission.source for admission in admissions)


@dataclass
class Worker:
    """A running worker and what it has reported so far."""

    name: str
    process: asyncio.subprocess.Process
    admissions: list[Admission] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    last_error: str | None = None
    longest_ms: float = 0.0
    source_now: str = "-"
    last_redis_decision: float = 0.0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def start(cls, recipe: Recipe, arguments: Sequence[str]) -> Worker:
        process = await asyncio.create_subprocess_exec(
            *recipe.command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **recipe.env},
            limit=1 << 22,
            # A Ctrl-C on the terminal is for the demo, which ends its workers itself.
            start_new_session=True,
        )
        return cls(recipe.name, process)

    async def read(self) -> None:
        """Takes in the worker's lines until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.take(json.loads(line))
        await self.process.wait()

    def take(self, line: Mapping[str, Any]) -> None:
        if "ready" in line:
            self.ready.set()
            return
        admitted = [Admission(*entry) for entry in line["admitted"]]
        refused: dict[str, int] = line["refused"]
        self.admissions += admitted
        _add(self.refused, refused)
        self.errors += line["errors"]
        self.last_error = line["error"] or self.last_error
        self.longest_ms = max(self.longest_ms, line["longest_ms"])
        counts = _add(dict(refused), _sources(admitted))
        if counts:
            self.source_now = max(counts, key=lambda source: counts[source])
        redis_from = [a.start for a in admitted if a.source == "redis"]
        if refused.get("redis"):
            # Refusals carry no time of their own; they came after the start of the line's span.
            redis_from.append(line["from"])
        self.last_redis_decision = max([self.last_redis_decision, *redis_from])

    def by_source(self) -> dict[str, int]:
        return _add(dict(self.refused), _sources(self.admissions))

    def say_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    def say_stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def failure(self) -> str | None:
        """Why this worker did not do its part, if so."""
        if self.errors:
            return f"{self.name}: {self.errors} calls threw, the last: {self.last_error}"
        if self.process.returncode != 0:
            return f"{self.name}: exit code {self.process.returncode}"
        return None
