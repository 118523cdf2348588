"""Builds the contenders: ours as a user installs it, the peers at their pinned versions."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import artefacts

BENCHES = artefacts.ROOT / "benches"
BUILT = BENCHES / ".built"


@dataclass
class Built:
    """Where the contenders are; Go's are None where it can't be built, with the reason in `skipped`."""

    rust: Path = Path()
    c: Path = Path()
    python: Path = Path()
    node: Path = Path()
    go: Path | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def _fresh(directory: Path, inputs: list[Path], make: Callable[[], object]) -> None:
    """Runs `make` where `directory` was not made of just these files."""
    digest = hashlib.sha256(sys.version.encode())
    for path in inputs:
        digest.update(path.read_bytes())
    stamp = directory / "made-of"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make()
    stamp.write_text(digest.hexdigest())


def _rust(built: Built, peers: bool) -> None:
    crate = BENCHES / "rust"
    target = artefacts.ROOT / "target"
    line: list[str | Path] = ["cargo", "build", "--quiet", "--locked", "--target-dir", target]
    # Without the peers nobody is compared, so it need not be optimised, which takes most of the time.
    artefacts.run([*line, *(["--release"] if peers else ["--no-default-features"])], cwd=crate)
    built.rust = target / ("release" if peers else "debug") / "contender"
    lock = (crate / "Cargo.lock").read_text()
    for package in ("redis", "tokio", *(["governor", "dashmap"] if peers else [])):
        versions = re.findall(rf'name = "{package}"\nversion = "([^"]+)"', lock)
        built.versions[f"{package} (crate)"] = versions[-1]
    built.versions["rustc"] = artefacts.run(["rustc", "--version"], cwd=crate).split()[1]


def _c(built: Built) -> None:
    directory = BUILT / "c"
    shutil.rmtree(directory, ignore_errors=True)
    prefix = artefacts.c_prefix(directory)
    flags = ["pkg-config", "--cflags", "--libs", "sluicegate"]
    env = {**os.environ, **artefacts.c_env(prefix)}
    words = artefacts.run(flags, cwd=prefix, env=env).split()
    program = directory / "contender"
    source = BENCHES / "c" / "contender.c"
    artefacts.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", program, *words], cwd=directory)
    built.c = program


def _python(built: Built, peers: bool) -> None:
    directory = BUILT / ("python" if peers else "python-ours")
    requirements = BENCHES / "python" / "requirements.txt"
    packages = [f"--requirement={requirements}"] if peers else []
    inputs = [artefacts.wheel(), *([requirements] if peers else [])]
    _fresh(directory, inputs, lambda: artefacts.python_env(directory, *packages))
    built.python = directory / "bin" / "python"
    listed = artefacts.pip(built.python, "list", "--format=json")
    for package in json.loads(listed):
        if package["name"] == "sluicegate" or f"{package['name']}==" in requirements.read_text():
            built.versions[
                package["name"] if package["name"] == "sluicegate" else f"{package['name']} (PyPI)"
            ] = package["version"]
    built.versions["Python"] = artefacts.run([built.python, "--version"], cwd=directory).split()[1]


def _node(built: Built, peers: bool) -> None:
    directory = BUILT / ("node" if peers else "node-ours")
    pinned = [BENCHES / "node" / name for name in ("package.json", "package-lock.json")]
    program = BENCHES / "node" / "contender.mjs"

    def make() -> None:
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
        if peers:
            for path in pinned:
                shutil.copy(path, directory)
            artefacts.run(npm, cwd=directory)
            artefacts.run([*npm, "--no-save", artefacts.tarball()], cwd=directory)
        else:
            artefacts.node_project(directory)
        shutil.copy(program, directory)

    _fresh(directory, [artefacts.tarball(), program, *(pinned if peers else [])], make)
    built.node = directory / "contender.mjs"
    for package in ("ioredis", "rate-limiter-flexible") if peers else ():
        manifest = json.loads((directory / "node_modules" / package / "package.json").read_text())
        built.versions[f"{package} (npm)"] = manifest["version"]
    built.versions["Node"] = artefacts.run(["node", "--version"], cwd=directory).strip().removeprefix("v")


def _go(built: Built) -> None:
    if shutil.which("go") is None:
        built.skipped["go"] = "no Go toolchain here"
        return
    module = BENCHES / "go"
    program = BUILT / "go" / "contender"
    artefacts.run(["go", "build", "-o", program, "."], cwd=module)
    built.go = program
    for name, version in re.findall(r"^\t(\S+) (v\S+)$", (module / "go.mod").read_text(), flags=re.MULTILINE):
        built.versions[f"{name} (Go)"] = version
    built.versions["Go"] = artefacts.run(["go", "env", "GOVERSION"], cwd=module).strip().removeprefix("go")


def build(say: Callable[[str], None], *, peers: bool) -> Built:
    """Builds all that can be built here."""
    built = Built()
    parts: dict[str, Callable[[], None]] = {
        "rust": lambda: _rust(built, peers),
        "c": lambda: _c(built),
        "python": lambda: _python(built, peers),
        "node": lambda: _node(built, peers),
    }
    if peers:
        parts["go"] = lambda: _go(built)
    for name, part in parts.items():
        say(f"building the contenders in {name}")
        part()
    shown = subprocess.run(["redis-server", "--version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"v=(\S+)", shown)
    built.versions["Redis"] = match[1] if match else shown.strip()
    return built
