"""Load from a driver in each language: one call after the other, until it is stopped."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from programs import Driver, Recipe
from redis_cluster import until

LANGUAGES = ("python", "node", "c")
BUDGET_S = 1.0
# How late a machine that is busy with other work may run us.
SCHEDULING_S = 1.0


class Load(threading.Thread):
    """One language's calls; `key` says on what, call by call."""

    def __init__(self, language: str, calls: Driver, key: Callable[[int], str]) -> None:
        super().__init__()
        self.language = language
        self._calls, self._key = calls, key
        self._stopped = threading.Event()
        self.answers: list[tuple[str, float, dict[str, Any]]] = []

    def run(self) -> None:
        for number in range(1_000_000):
            if self._stopped.is_set():
                return
            key = self._key(number)
            self.answers.append((key, time.monotonic(), self._calls.call(key)))

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=60)
        assert not self.is_alive()

    def on_redis_since(self, moment: float, keys: set[str]) -> bool:
        seen = {key for key, at, answer in self.answers if at > moment and answer["source"] == "redis"}
        return bool(seen) and keys <= seen


class Loads(list[Load]):
    """The loads of all languages."""

    def wait_for_redis(self, keys: set[str] | None = None) -> None:
        """Returns when Redis has decided a call (on each key) in each language from now on."""
        now = time.monotonic()
        until("Redis decides", lambda: all(load.on_redis_since(now, keys or set()) for load in self))

    def admitted(self) -> Counter[str]:
        return Counter(key for load in self for key, _, answer in load.answers if answer["allowed"])

    def check_calls(self, what: str) -> None:
        """No call threw, and none took longer than its budget."""
        for load in self:
            errors = [answer for _, _, answer in load.answers if answer["error"] is not None]
            slowest = max(answer["ms"] for _, _, answer in load.answers)
            here = sum(answer["source"] == "outage" for _, _, answer in load.answers)
            print(
                f"{what}: {load.language}: {len(load.answers)} calls, {len(errors)} errors, slowest "
                f"{slowest:.0f} ms of a budget of {BUDGET_S * 1000:.0f} ms, {here} decided here"
            )
            assert not errors
            assert slowest <= (BUDGET_S + SCHEDULING_S) * 1000


@contextmanager
def loads_on(
    recipes: dict[str, Recipe], url: str, spec: str, key: Callable[[str, int], str]
) -> Iterator[Loads]:
    """Calls in all languages at once, within the block."""
    loads = Loads()
    with ExitStack() as stack:
        for language in LANGUAGES:
            calls = stack.enter_context(Driver(recipes[language], url, spec, timeout_s=BUDGET_S))
            loads.append(Load(language, calls, partial(key, language)))
        try:
            for load in loads:
                load.start()
            yield loads
        finally:
            for load in loads:
                load.stop()
