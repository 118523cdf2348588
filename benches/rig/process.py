"""A contender: a process that says when it is ready, and serves rounds until it is told to end."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from redis_servers import die_with_parent

START_SECONDS = 60.0
WARM_SHARE = 0.2


@dataclass(frozen=True)
class Contender:
    """Who takes part in a group, and how it is started."""

    name: str
    label: str
    command: Sequence[str | Path]
    # Whether each of its decisions is a run of a script: one that has a limiter of its own for when it
    # can't reach Redis must not be measured with that.
    one_by_one: bool = False
    # Whether it is another's: where it keeps deciding otherwise than measured, that is its outcome.
    peer: bool = False


class Process:
    """A contender's process, started on entry and gone on exit."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._lines: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Process:
        self._errors = tempfile.TemporaryFile(mode="w+")
        self._process = subprocess.Popen(
            [str(word) for word in self.contender.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            preexec_fn=die_with_parent,
        )
        threading.Thread(target=self._read, daemon=True).start()
        try:
            if self._answer(START_SECONDS).get("ready") is not True:
                raise RuntimeError(f"{self.contender.name} did not say that it is ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def round(self, seconds: float) -> dict[str, Any]:
        """Has it call for so many seconds, after a shorter time that does not count."""
        assert self._process.stdin is not None
        ask = {"warm": seconds * WARM_SHARE, "seconds": seconds}
        self._process.stdin.write(json.dumps(ask) + "\n")
        self._process.stdin.flush()
        return self._answer(20 * seconds + 10)

    def cpu_us(self) -> float:
        """The CPU time that it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"{self.contender.name} did not answer within {seconds:.0f} s") from None
        if line is None:
            self._process.wait(timeout=10)
            self._errors.seek(0)
            raise RuntimeError(f"{self.contender.name} ended: {self._errors.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(timeout=10)
        self._errors.close()
