"""What a worker tells the demo: a JSON line every 200 ms, and how it learns when to start and stop."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any


class Report:
    """Counts the calls of this process; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._since = time.time()
        self._admitted: list[tuple[float, float, str]] = []
        self._refused: dict[str, int] = {}
        self._errors = 0
        self._error: str | None = None
        self._longest = 0.0

    def call_ended(self, started: float, outcome: Any) -> None:
        """Counts one call by its decision, or by the exception that it threw."""
        ended = time.time()
        with self._lock:
            self._longest = max(self._longest, ended - started)
            if isinstance(outcome, Exception):
                self._errors += 1
                self._error = repr(outcome)
            elif outcome.allowed:
                self._admitted.append((started, ended, str(outcome.source)))
            else:
                source = str(outcome.source)
                self._refused[source] = self._refused.get(source, 0) + 1

    def flush(self) -> None:
        with self._lock:
            line = {
                "from": self._since,
                "to": time.time(),
                "admitted": self._admitted,
                "refused": self._refused,
                "errors": self._errors,
                "error": self._error,
                "longest_ms": self._longest * 1000,
            }
            self._clear()
        print(json.dumps(line), flush=True)


def ready() -> threading.Event:
    """Says that this process is ready, waits for the word to go, and returns what tells it to stop:
    the end of its input, which also comes when the demo dies."""
    print('{"ready": true}', flush=True)
    sys.stdin.readline()
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    return over
