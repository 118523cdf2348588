"""Runs small programs in each language that use the installed parts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import artefacts
from redis_servers import die_with_parent

Self = TypeVar("Self", bound="Running")

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


class Workshop:
    """Makes the programs of `programs/` ready to run, each at its first use."""

    def __init__(self, installed: Callable[[str], Path], built: Path) -> None:
        # Where each language's part is installed: interpreter, project, prefix or crate.
        self._installed = installed
        self._built = built
        self._recipes: dict[tuple[str, str], Recipe] = {}

    def recipe(self, language: str, name: str) -> Recipe:
        """How to run the program of this name in this language."""
        if (language, name) not in self._recipes:
            self._recipes[language, name] = self._make(language, name)
        return self._recipes[language, name]

    def _make(self, language: str, name: str) -> Recipe:
        at = self._installed(language)
        if language == "python":
            return Recipe(language, [at, SOURCES / f"{name}.py"], {})
        if language == "node":
            shutil.copy(SOURCES / f"{name}.mjs", at)
            return Recipe(language, ["node", at / f"{name}.mjs"], {})
        if language == "c":
            program = artefacts.compile_c(SOURCES / f"{name}.c", self._built / name, at)
            return Recipe(language, [program], artefacts.c_env(at))
        shutil.copy(SOURCES / f"{name}.rs", at / "src" / "bin")
        return Recipe(language, [build_rust(at, name)], {})


class Recipes(dict[str, Recipe]):
    """One program in each language, made ready when it is first asked for."""

    def __init__(self, workshop: Workshop, name: str) -> None:
        super().__init__()
        self._workshop, self._name = workshop, name

    def __missing__(self, language: str) -> Recipe:
        return self._workshop.recipe(language, self._name)


def build_rust(crate: Path, name: str) -> Path:
    """Builds one binary of the outside crate, with the versions that our lock file names."""
    target = artefacts.ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    artefacts.run(["cargo", "build", "--quiet", "--bin", name, "--target-dir", target], cwd=crate)
    return target / "debug" / name


class Running:
    """A running program that answers lines of input with lines of JSON, and ends with the input."""

    def __init__(self, line: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [str(word) for word in line],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
            preexec_fn=die_with_parent,
        )

    def __enter__(self: Self) -> Self:
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
            assert code == 0, f"the program ended with exit code {code}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, what: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the program ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, what: str) -> dict[str, Any]:
        self.say(what)
        return self.answer()


class Driver(Running):
    """A running driver: one call for each line that it is sent."""

    def __init__(self, recipe: Recipe, url: str, spec: str, timeout_s: float) -> None:
        super().__init__(recipe.line(url, spec, str(round(timeout_s * 1000))), recipe.environment())

    def call(self, key: str) -> dict[str, Any]:
        """One try_acquire: allowed, source, ms (how long the call took), error (null if none)."""
        return self.ask(key)
