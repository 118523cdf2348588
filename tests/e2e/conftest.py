"""The installed parts, each in a fresh directory outside the repository, and a Redis for each test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import artefacts
import programs
import pytest
import redis_servers
import report
from redis_servers import RedisServer


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that has the wheel and nothing else."""
    return artefacts.python_env(tmp_path_factory.mktemp("python") / "venv")


@pytest.fixture(scope="session")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that has the wheel and all frameworks."""
    pins = Path(__file__).with_name("requirements-frameworks.txt")
    # Most of what is installed is never imported, so it is not compiled either.
    options = ["--no-compile", f"--requirement={pins}"]
    return artefacts.python_env(tmp_path_factory.mktemp("frameworks") / "venv", *options)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An npm project that has the tarball and nothing else."""
    return artefacts.node_project(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="session")
def node_frameworks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An npm project that has the tarball and the frameworks, and in `built` the programs of
    docs/node-frameworks.md as `tsc --strict` puts them out."""
    directory = tmp_path_factory.mktemp("node-frameworks")
    shutil.copytree(programs.SOURCES / "node-frameworks", directory, dirs_exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--prefer-offline"]
    artefacts.run(["npm", "ci", *quiet], cwd=directory)
    artefacts.run(["npm", "install", "--no-save", *quiet, artefacts.tarball()], cwd=directory)
    page = (artefacts.ROOT / "docs" / "node-frameworks.md").read_text()
    for name, text in re.findall(r"^```(?:js|ts)\n// (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (directory / name).write_text(text)
    check = programs.SOURCES / "check_types.mjs"
    artefacts.run(["node", check, artefacts.ROOT / "bindings-node"], cwd=directory)
    return directory


@pytest.fixture(scope="session")
def c_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artefacts.c_prefix(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="session")
def rust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crate outside the repository that depends on ours; binaries go to src/bin."""
    crate = tmp_path_factory.mktemp("rust")
    (crate / "Cargo.toml").write_text(
        f"""
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[dependencies]
sluicegate = {{ path = "{artefacts.ROOT / "core"}" }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "time"] }}
libc = "0.2"
"""
    )
    (crate / "src" / "bin").mkdir(parents=True)
    shutil.copy(artefacts.ROOT / "Cargo.lock", crate)
    return crate


@pytest.fixture(scope="session")
def workshop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> programs.Workshop:
    """Makes programs of any language ready to run; a language is set up when it is first asked for."""
    fixtures = {"python": "python", "node": "node", "c": "c_prefix", "rust": "rust"}
    return programs.Workshop(
        lambda language: request.getfixturevalue(fixtures[language]), tmp_path_factory.mktemp("built")
    )


@pytest.fixture(scope="session")
def recipes(workshop: programs.Workshop) -> programs.Recipes:
    """In each language: how to run a program that makes a call for each line of its input."""
    return programs.Recipes(workshop, "driver")


@pytest.fixture(params=programs.LANGUAGES)
def driver(request: pytest.FixtureRequest, recipes: programs.Recipes) -> programs.Recipe:
    """The same, one language after the other."""
    return recipes[request.param]


@pytest.fixture(scope="session", autouse=True)
def _outside_environment() -> None:
    """The programs must find the installed parts, not the source tree."""
    for name in ("PYTHONPATH", "NODE_PATH", "VIRTUAL_ENV"):
        os.environ.pop(name, None)


def pytest_report_header() -> str:
    return f"server: {redis_servers.version()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in report.TABLES.values():
        terminalreporter.section(f"measured: {table.title}")
        for line in table.lines():
            terminalreporter.write_line(line)
