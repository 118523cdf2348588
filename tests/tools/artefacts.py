"""The built parts, installed as a user would: into directories of their own, outside the repository.

`make wheel npm lib` builds them; nothing here looks into the source tree for anything else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"


def run(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Runs a command and returns what it printed; on failure, says all of it."""
    line = [str(word) for word in command]
    done = subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(line)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _only(pattern: str, target: str) -> Path:
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        raise RuntimeError(f"dist/ must hold one {pattern}, it has {len(found)}; run `make {target}`")
    return found[0]


def wheel() -> Path:
    return _only("sluicegate-*.whl", "wheel")


def tarball() -> Path:
    return _only("sluicegate-*.tgz", "npm")


def python_env(directory: Path, *packages: str) -> Path:
    """A new virtual environment with the wheel and `packages`; returns its interpreter."""
    # A pip of its own takes as long to install as most of what a test needs.
    venv.create(directory, with_pip=False, clear=True, symlinks=True)
    python = directory / "bin" / "python"
    pip(python, "install", "--quiet", wheel(), *packages)
    return python


def pip(python: Path, *words: str | Path) -> str:
    """Our pip, at work in the environment of `python`."""
    ours: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    return run([*ours, *words], cwd=python.parent)


def node_project(directory: Path) -> Path:
    """A new npm project with the tarball; returns its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text('{ "name": "outside", "private": true }\n')
    run(["npm", "install", "--no-audit", "--no-fund", "--silent", tarball()], cwd=directory)
    return directory


def c_prefix(directory: Path) -> Path:
    """The C library, installed by `make install-c PREFIX=...`; returns the prefix."""
    prefix = directory / "prefix"
    directory.mkdir(parents=True, exist_ok=True)
    run(["make", "--no-print-directory", "-C", ROOT, "install-c", f"PREFIX={prefix}"], cwd=directory)
    return prefix


def c_env(prefix: Path) -> dict[str, str]:
    """What lets pkg-config find a library outside the system's directories; the loader knows by itself."""
    return {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}


def compile_c(source: Path, program: Path, prefix: Path, compiler: str = "cc") -> Path:
    """`cc main.c $(pkg-config --cflags --libs sluicegate)`, with warnings as errors."""
    env = {**os.environ, **c_env(prefix)}
    flags = run(["pkg-config", "--cflags", "--libs", "sluicegate"], cwd=prefix, env=env).split()
    run([compiler, "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags], cwd=prefix, env=env)
    return program


def rust_scenarios(url: str) -> str:
    """Runs the scenarios of the Rust suite against that Redis; returns what they print.

    Asked for by name, cargo would build them anew, with other features than the whole suite's.
    """
    line = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format=json"]
    built = [json.loads(each) for each in run(line, cwd=ROOT).splitlines()]
    (program,) = (
        each["executable"]
        for each in built
        if each["reason"] == "compiler-artifact" and each["target"]["name"] == "scenarios"
    )
    return run([program], cwd=ROOT / "core", env={**os.environ, "SLUICEGATE_TEST_REDIS": url})


if __name__ == "__main__":
    # For the Makefile: an environment with the wheel, for the tests of the Python binding.
    print(python_env(Path(sys.argv[1]), *sys.argv[2:]))
