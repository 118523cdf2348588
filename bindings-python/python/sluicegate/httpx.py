"""Outgoing calls of httpx that wait for their turn.

import httpx, sluicegate
from sluicegate.httpx import RateLimitTransport

limit = sluicegate.Limiter("redis://localhost:6379").limit("provider", "leaky-bucket 10/s queue 100")
client = httpx.Client(transport=RateLimitTransport(limit, timeout=5.0))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import SupportsIndex

import httpx

from ._errors import RateLimited
from ._outgoing import Pauses, rest
from ._sluicegate import AioLimit, Limit
from ._take import aio_take, awaitable, blocking, take

__all__ = ["AsyncRateLimitTransport", "RateLimitTransport"]

Key = str | bytes | Callable[[httpx.Request], str | bytes]
Cost = SupportsIndex | Callable[[httpx.Request], SupportsIndex]


class _Settings:
    def __init__(self, key: Key | None, cost: Cost, timeout: float | None, heed_retry_after: bool) -> None:
        self._key, self._cost, self._timeout = key, cost, timeout
        self._pauses = Pauses() if heed_retry_after else None

    def _asked(self, request: httpx.Request) -> tuple[str | bytes, SupportsIndex]:
        key = self._key(request) if callable(self._key) else self._key
        cost = self._cost(request) if callable(self._cost) else self._cost
        return request.url.host if key is None else key, cost

    def _pause(self, key: str | bytes) -> float:
        return 0.0 if self._pauses is None else self._pauses.left(key, self._timeout)

    def _heard(self, key: str | bytes, response: httpx.Response) -> None:
        if self._pauses is not None:
            self._pauses.heard(key, response.status_code, response.headers)


class RateLimitTransport(_Settings, httpx.BaseTransport):
    """A transport for ``httpx.Client`` whose requests wait for their turn under a limit.

    limit: a ``sluicegate.Limit``.
    transport: what sends the requests; ``httpx.HTTPTransport()`` unless said.
    key: a text, or a function of the request; its host unless said.
    cost: a number, or a function of the request; 1 unless said.
    timeout: how many seconds a request may wait, 0 to 366 days, which is also what None means. A
        request whose turn would come later is not sent: ``RateLimited`` is raised at once.
    heed_retry_after: whether further requests of this transport with the same key wait as long as an
        answer 429 said in ``Retry-After``. That answer itself is returned as it came.

    A permit of a concurrency limit is held until the head of the answer has come.
    """

    def __init__(
        self,
        limit: Limit,
        transport: httpx.BaseTransport | None = None,
        *,
        key: Key | None = None,
        cost: Cost = 1,
        timeout: float | None = None,
        heed_retry_after: bool = False,
    ) -> None:
        super().__init__(key, cost, timeout, heed_retry_after)
        self._limit = blocking(limit)
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for the turn, then send."""
        key, cost = self._asked(request)
        started = time.monotonic()
        if pause := self._pause(key):
            time.sleep(pause)
        decision, permit = take(self._limit, key, cost, rest(self._timeout, time.monotonic() - started))
        if not decision.allowed:
            raise RateLimited(decision)
        try:
            response = self._transport.handle_request(request)
        finally:
            if permit is not None:
                permit.release()
        self._heard(key, response)
        return response

    def close(self) -> None:
        """Close the transport that sends."""
        self._transport.close()


class AsyncRateLimitTransport(_Settings, httpx.AsyncBaseTransport):
    """The same for ``httpx.AsyncClient``, with a ``sluicegate.aio.Limit``, under asyncio."""

    def __init__(
        self,
        limit: AioLimit,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        key: Key | None = None,
        cost: Cost = 1,
        timeout: float | None = None,
        heed_retry_after: bool = False,
    ) -> None:
        super().__init__(key, cost, timeout, heed_retry_after)
        self._limit = awaitable(limit)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for the turn, then send."""
        key, cost = self._asked(request)
        started = time.monotonic()
        if pause := self._pause(key):
            await asyncio.sleep(pause)
        waited = time.monotonic() - started
        decision, permit = await aio_take(self._limit, key, cost, rest(self._timeout, waited))
        if not decision.allowed:
            raise RateLimited(decision)
        try:
            response = await self._transport.handle_async_request(request)
        finally:
            if permit is not None:
                permit.release()
        self._heard(key, response)
        return response

    async def aclose(self) -> None:
        """Close the transport that sends."""
        await self._transport.aclose()
