"""One version for all packages."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import artefacts
import pytest

ROOT = artefacts.ROOT


def versions(pattern: str, path: Path) -> list[str]:
    found = re.findall(pattern, path.read_text(), flags=re.MULTILINE)
    assert found, f"{path} has no {pattern}"
    return found


@pytest.fixture(scope="module")
def version() -> str:
    """The workspace's, which all crates take over."""
    return versions(r'^version = "(.*)"$', ROOT / "Cargo.toml")[0]


def test_crates(version: str) -> None:
    text = artefacts.run(["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"], cwd=ROOT)
    packages = {package["name"]: package["version"] for package in json.loads(text)["packages"]}
    names = {"sluicegate", "sluicegate-python", "sluicegate-node", "sluicegate-c"}
    assert packages == dict.fromkeys(names, version)


def test_wheel(version: str, python: Path, tmp_path: Path) -> None:
    wheel = artefacts.wheel()
    assert wheel.name.startswith(f"sluicegate-{version}-cp310-abi3-")
    with zipfile.ZipFile(wheel) as files:
        assert "sluicegate/py.typed" in files.namelist()
    program = (
        "import sluicegate, importlib.metadata as m; print(sluicegate.__version__, m.version('sluicegate'))"
    )
    assert artefacts.run([python, "-c", program], cwd=tmp_path).split() == [version, version]


def test_npm_package(version: str) -> None:
    assert artefacts.tarball().name == f"sluicegate-{version}.tgz"
    with tarfile.open(artefacts.tarball()) as files:
        package = files.extractfile("package/package.json")
        assert package is not None
        assert json.load(package)["version"] == version
        assert any(name.endswith(".node") for name in files.getnames())
    lock = json.loads((ROOT / "bindings-node" / "package-lock.json").read_text())
    assert [lock["version"], lock["packages"][""]["version"]] == [version, version]


def test_c_library(version: str, c_prefix: Path) -> None:
    env = {**os.environ, **artefacts.c_env(c_prefix)}
    line = ["pkg-config", "--modversion", "sluicegate"]
    assert subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout.strip() == version
    library = ctypes.CDLL(str(c_prefix / "lib" / f"libsluicegate.so.{version}"))
    library.sg_version.restype = ctypes.c_char_p
    assert library.sg_version() == version.encode()


def test_changelog(version: str) -> None:
    assert versions(r"^## \[(\d.*?)\]", ROOT / "CHANGELOG.md")[0] == version
