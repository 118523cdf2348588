"""What type checkers and packaging see is what is there."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sluicegate
import sluicegate.aio

PACKAGE = Path(sluicegate.__file__).parent
ROOT = Path(__file__).resolve().parents[1]


def test_the_stub_is_the_module(tmp_path: Path) -> None:
    allowlist = ROOT / "stubtest-allowlist.txt"
    command = [sys.executable, "-m", "mypy.stubtest", "sluicegate", "--allowlist", str(allowlist)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_sluicegate.pyi").exists()


def test_one_version() -> None:
    cargo = (ROOT.parent / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"', cargo, flags=re.MULTILINE)
    assert found
    assert sluicegate.__version__ == importlib.metadata.version("sluicegate") == found[1]


def test_aio_has_the_same_names() -> None:
    assert set(sluicegate.aio.__all__) - {"Hold"} == set(sluicegate.__all__) - {"__version__"}
    for name in ("Limiter", "Limit"):
        blocking, awaitable = (
            {member for member in vars(getattr(module, name)) if not member.startswith("__")}
            for module in (sluicegate, sluicegate.aio)
        )
        assert blocking == awaitable


@pytest.mark.parametrize("module", [sluicegate, sluicegate.aio])
def test_everything_public_has_a_docstring(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        thing = getattr(module, name)
        if not inspect.isclass(thing):
            continue
        assert thing.__doc__, name
        for member, value in vars(thing).items():
            if not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"
