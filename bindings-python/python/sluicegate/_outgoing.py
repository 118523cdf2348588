"""What the parts for outgoing calls share: when a provider said to come back later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import Lock

from ._errors import RateLimited
from ._sluicegate import HTTP_STATUS, Decision

# A pause is as long as a limit's longest wait at most, and there are so many of them.
_LONGEST = 366 * 86_400.0
_MOST = 10_000


class Pauses:
    """Until when which key has to wait, as providers said in ``Retry-After``."""

    def __init__(self) -> None:
        self._until: dict[str | bytes, float] = {}
        self._lock = Lock()

    def heard(self, key: str | bytes, status: int, headers: Mapping[str, str]) -> None:
        """Note what a response says."""
        wait = retry_after(headers.get("Retry-After")) if status == HTTP_STATUS else None
        if not wait:
            return
        now = time.monotonic()
        with self._lock:
            until = max(now + wait, self._until.pop(key, now))
            if len(self._until) >= _MOST:
                self._drop(now)
            self._until[key] = until

    def left(self, key: str | bytes, timeout: float | None) -> float:
        """How long to wait; raises ``RateLimited`` where that is longer than ``timeout``."""
        with self._lock:
            left = self._until.get(key, 0.0) - time.monotonic()
            if left <= 0.0:
                self._until.pop(key, None)
                return 0.0
        if timeout is not None and left > timeout:
            raise RateLimited(_refusal(left))
        return left

    def _drop(self, now: float) -> None:
        self._until = {key: until for key, until in self._until.items() if until > now}
        if len(self._until) >= _MOST:
            del self._until[min(self._until, key=self._until.__getitem__)]


def retry_after(value: str | None) -> float | None:
    """The seconds that a ``Retry-After`` means: it holds a number of them, or a date."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text), _LONGEST)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return min(max((date - datetime.now(timezone.utc)).total_seconds(), 0.0), _LONGEST)


def rest(timeout: float | None, waited: float) -> float | None:
    """What is left of ``timeout``."""
    return None if timeout is None else max(timeout - waited, 0.0)


def _refusal(wait: float) -> Decision:
    """What a limit would say that remembers the provider's refusal."""
    microseconds = round(wait * 1e6)
    return Decision._restore(False, 0, 0, microseconds, microseconds, 0, "deny-cache", 0)
