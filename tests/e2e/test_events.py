"""Every language hears that the store is there, away and back: once each, and nothing more."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import artefacts
import programs
import pytest
from redis_servers import RedisServer

PATIENCE = 60.0


class Listener:
    """A running program that prints what it hears."""

    def __init__(self, name: str, *words: str | Path) -> None:
        line = [str(word) for word in words]
        self.name = name
        self.heard: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.heard.append(line.strip())
                self._changed.notify_all()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def hears(self, *kinds: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.heard) >= len(kinds), PATIENCE)
        assert self.heard == list(kinds), self.name

    def ends(self) -> None:
        assert self.process.wait(PATIENCE) == 0, self.name


@pytest.fixture
def commands(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Sequence[str | Path]]:
    """How each language's program is started; the URL is appended."""
    source = programs.SOURCES
    python, node, c_prefix, rust = (
        request.getfixturevalue(name) for name in ("python", "node", "c_prefix", "rust")
    )
    shutil.copy(source / "listener.mjs", node)
    shutil.copy(source / "listener.rs", rust / "src" / "bin")
    return {
        "blocking": [python, source / "listener.py", "blocking"],
        "asyncio": [python, source / "listener.py", "aio"],
        "node": ["node", node / "listener.mjs"],
        "c": [artefacts.compile_c(source / "listener.c", tmp_path / "listener", c_prefix)],
        "rust": [programs.build_rust(rust, "listener")],
    }


def test_up_out_and_back(commands: dict[str, Sequence[str | Path]], redis: RedisServer) -> None:
    with contextlib.ExitStack() as stack:
        all_of_them = [
            stack.enter_context(Listener(name, *line, redis.url)) for name, line in commands.items()
        ]
        for listener in all_of_them:
            listener.hears("up")
        redis.kill()
        for listener in all_of_them:
            listener.hears("up", "out")
        redis.restart()
        for listener in all_of_them:
            listener.hears("up", "out", "back")
            listener.ends()
