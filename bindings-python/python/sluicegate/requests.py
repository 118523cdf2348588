"""Outgoing calls of requests that wait for their turn.

import requests, sluicegate
from sluicegate.requests import RateLimitAdapter

limit = sluicegate.Limiter("redis://localhost:6379").limit("provider", "leaky-bucket 10/s queue 100")
session = requests.Session()
session.mount("https://", RateLimitAdapter(limit, timeout=5.0))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from ._errors import RateLimited
from ._outgoing import Pauses, rest
from ._sluicegate import Limit
from ._take import blocking, take

__all__ = ["RateLimitAdapter"]

Key = str | bytes | Callable[[requests.PreparedRequest], str | bytes]
Cost = SupportsIndex | Callable[[requests.PreparedRequest], SupportsIndex]


class RateLimitAdapter(HTTPAdapter):
    """An adapter for ``requests.Session.mount`` whose requests wait for their turn under a limit.

    limit: a ``sluicegate.Limit``.
    key: a text, or a function of the prepared request; its host unless said.
    cost: a number, or a function of the prepared request; 1 unless said.
    timeout: how many seconds a request may wait, 0 to 366 days, which is also what None means. A
        request whose turn would come later is not sent: ``RateLimited`` is raised at once.
    heed_retry_after: whether further requests of this adapter with the same key wait as long as an
        answer 429 said in ``Retry-After``. That answer itself is returned as it came.
    adapter: further options of ``HTTPAdapter``, such as ``max_retries``; a retry takes no turn.

    A permit of a concurrency limit is held until the head of the answer has come, or all of it where
    the request does not stream.
    """

    def __init__(
        self,
        limit: Limit,
        *,
        key: Key | None = None,
        cost: Cost = 1,
        timeout: float | None = None,
        heed_retry_after: bool = False,
        **adapter: Any,
    ) -> None:
        super().__init__(**adapter)
        self._limit, self._key, self._cost, self._timeout = blocking(limit), key, cost, timeout
        self._pauses = Pauses() if heed_retry_after else None

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Wait for the turn, then send; ``timeout`` is that of the sending alone."""
        key = self._key(request) if callable(self._key) else self._key
        if key is None:
            key = urlsplit(str(request.url)).hostname or ""
        cost = self._cost(request) if callable(self._cost) else self._cost
        started = time.monotonic()
        if self._pauses is not None:
            time.sleep(self._pauses.left(key, self._timeout))
        decision, permit = take(self._limit, key, cost, rest(self._timeout, time.monotonic() - started))
        if not decision.allowed:
            raise RateLimited(decision)
        try:
            response = super().send(request, stream, timeout, verify, cert, proxies)
        finally:
            if permit is not None:
                permit.release()
        if self._pauses is not None:
            self._pauses.heard(key, response.status_code, response.headers)
        return response
