"""Runs small programs in each language that use the installed parts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import artefacts

LANGUAGES = ("python", "node", "c", "rust")
SOURCES = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Recipe:
    """How to start a program; its arguments are appended."""

    language: str
    command: Sequence[str | Path]
    env: Mapping[str, str]

    def line(self, *arguments: str) -> list[str]:
        return [*(str(word) for word in self.command), *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}


def build_rust(crate: Path, name: str) -> Path:
    """Builds one binary of the outside crate, with the versions that our lock file names."""
    target = artefacts.ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    artefacts.run(["cargo", "build", "--quiet", "--bin", name, "--target-dir", target], cwd=crate)
    return target / "debug" / name


class Driver:
    """A running driver: one call for each line that it is sent."""

    def __init__(self, recipe: Recipe, url: str, spec: str, timeout_s: float) -> None:
        self._process = subprocess.Popen(
            recipe.line(url, spec, str(round(timeout_s * 1000))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=recipe.environment(),
            text=True,
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout=30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
        if kind is None:
            assert code == 0, f"the driver ended with exit code {code}"

    def call(self, key: str) -> dict[str, Any]:
        """One try_acquire: allowed, source, ms (how long the call took), error (null if none)."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{key}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the driver ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer
