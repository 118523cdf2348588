"""Limits as dependencies of FastAPI.

from sluicegate.aio import Limiter
from sluicegate.fastapi import RateLimit

login = Limiter("redis://localhost:6379").limit("login", "5/minute")

@app.post("/login", dependencies=[Depends(RateLimit(login))])
async def log_in(): ...
"""

# No `annotations` from the future: FastAPI has to find what those of `__call__` name.
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, SupportsIndex

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.requests import HTTPConnection

from ._errors import RateLimited
from ._sluicegate import HTTP_STATUS, AioLimit, ClientAddress, Decision
from ._take import aio_take, awaitable
from ._web import PROBLEM_HEADERS, value_of
from .asgi import key_of

__all__ = ["RESPONSES", "HTTPRateLimited", "RateLimit", "use_problem_details"]

LimitSource = AioLimit | Callable[[HTTPConnection], AioLimit | Awaitable[AioLimit | None] | None]
KeySource = ClientAddress | Callable[[HTTPConnection], str | bytes | Awaitable[str | bytes]]
CostSource = SupportsIndex | Callable[[HTTPConnection], SupportsIndex | Awaitable[SupportsIndex]]

_FIELDS = {
    "Retry-After": ("In how many seconds to come back.", "integer"),
    "RateLimit-Policy": ("The limits that hold here.", "string"),
    "RateLimit": ("What is left of them.", "string"),
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    HTTP_STATUS: {
        "description": "Too Many Requests",
        "headers": {
            name: {"description": text, "schema": {"type": kind}} for name, (text, kind) in _FIELDS.items()
        },
    }
}
"""What OpenAPI says of a refusal: give it as ``responses`` to a route, a router or the application."""


class HTTPRateLimited(HTTPException, RateLimited):
    """A refused request. FastAPI answers it with 429, the header fields, and the problem as ``detail``."""

    def __init__(self, decision: Decision, problem: Any, headers: dict[str, str]) -> None:
        HTTPException.__init__(self, HTTP_STATUS, detail=problem, headers=headers)
        self.decision = decision


class RateLimit:
    """A dependency that holds a route, a router or the whole application to a limit.

    limit: a ``sluicegate.aio.Limit``, or a function of the request that returns one (plans, VIP
        tiers) or None, for no limit.
    key: a ``ClientAddress``, or a function of the request. Unless said it is the address of the
        connection's other end; behind proxies give ``ClientAddress(trusted=[...])``.
    cost: a number, or a function of the request; 1 unless said.
    legacy_headers: whether to add ``X-RateLimit-*`` too.

    The functions may be async, and are given websocket connections as well. An admitted response gets
    the header fields, unless the route returns a ``Response`` of its own, to which FastAPI adds nothing:
    take the middleware of ``sluicegate.asgi`` there. The dependency's value is the decision, or None
    where there is no limit. A permit of a concurrency limit is held until the request is done.

    Raises ``HTTPRateLimited`` for a refused request.
    """

    def __init__(
        self,
        limit: LimitSource,
        *,
        key: KeySource | None = None,
        cost: CostSource = 1,
        legacy_headers: bool = False,
    ) -> None:
        if not callable(limit):
            awaitable(limit)
        self._limit, self._cost, self._legacy = limit, cost, legacy_headers
        self._key = ClientAddress() if key is None else key

    async def __call__(
        self, connection: HTTPConnection, response: Response
    ) -> AsyncIterator[Decision | None]:
        """Decide on a request, as FastAPI asks."""
        found = await value_of(self._limit(connection)) if callable(self._limit) else self._limit
        if found is None:
            yield None
            return
        limit = awaitable(found)
        cost = await value_of(self._cost(connection)) if callable(self._cost) else self._cost
        decision, permit = await aio_take(limit, await self._key_of(connection), cost)
        headers = limit.http_headers(decision, legacy=self._legacy)
        if not decision.allowed:
            raise HTTPRateLimited(decision, json.loads(limit.http_problem(decision)), headers)
        for name, value in headers.items():
            response.headers.append(name, value)
        try:
            yield decision
        finally:
            if permit is not None:
                permit.release()

    async def _key_of(self, connection: HTTPConnection) -> str | bytes:
        if isinstance(self._key, ClientAddress):
            return await key_of(self._key, connection.scope)
        return await value_of(self._key(connection))


def use_problem_details(app: FastAPI) -> None:
    """Have ``app`` answer refusals with problem details (RFC 9457) in place of FastAPI's own form."""

    async def answer(_request: Request, error: HTTPException) -> Response:
        headers = {**(error.headers or {}), **PROBLEM_HEADERS}
        return Response(json.dumps(error.detail), error.status_code, headers)

    app.exception_handler(HTTPRateLimited)(answer)
