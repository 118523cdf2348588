"""A limit for any ASGI application: Starlette, FastAPI, Litestar, Quart, Django.

from sluicegate.aio import Limiter
from sluicegate.asgi import RateLimitMiddleware

limit = Limiter("redis://localhost:6379").limit("api", "100/s burst 200")
app.add_middleware(RateLimitMiddleware, limit=limit)    # or app = RateLimitMiddleware(app, limit)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, SupportsIndex

from ._sluicegate import HTTP_STATUS, AioLimit, ClientAddress, Decision
from ._take import aio_take, awaitable
from ._web import PROBLEM_HEADERS, additions, value_of

__all__ = ["RateLimitMiddleware"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LimitSource = AioLimit | Callable[[Scope], AioLimit | Awaitable[AioLimit | None] | None]
KeySource = ClientAddress | Callable[[Scope], str | bytes | Awaitable[str | bytes]]
CostSource = SupportsIndex | Callable[[Scope], SupportsIndex | Awaitable[SupportsIndex]]
Skip = Callable[[Scope], bool | Awaitable[bool]]
Refusal = Callable[[Scope, Decision], App]

# What may carry our header fields.
_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
# RFC 6455's code for a server that wants the client to come later.
_TRY_AGAIN_LATER = 1013


class RateLimitMiddleware:
    """Holds HTTP requests and websocket handshakes to a limit.

    limit: a ``sluicegate.aio.Limit``, or a function of the scope that returns one (plans, VIP tiers) or
        None, for no limit.
    key: a ``ClientAddress``, or a function of the scope. Unless said it is the address of the
        connection's other end; behind proxies give ``ClientAddress(trusted=[...])``.
    cost: a number, or a function of the scope; 1 unless said.
    skip: a function of the scope; where it is true, as for health checks, nothing is asked or added.
    legacy_headers: whether to add ``X-RateLimit-*`` too.
    refusal: a function of the scope and the decision that returns an ASGI application, such as a
        response of Starlette's, to answer instead of 429 with problem details.

    The functions may be async. All responses get the header fields of the decision. A websocket that
    is refused is answered as HTTP is, where the server has the extension ``websocket.http.response``;
    elsewhere it is closed before it is accepted, which is a 403. A permit of a concurrency limit is
    held until the application is through with the request.
    """

    def __init__(
        self,
        app: App,
        limit: LimitSource,
        *,
        key: KeySource | None = None,
        cost: CostSource = 1,
        skip: Skip | None = None,
        legacy_headers: bool = False,
        refusal: Refusal | None = None,
    ) -> None:
        if not callable(limit):
            awaitable(limit)
        self._app, self._limit, self._cost, self._skip = app, limit, cost, skip
        self._key = ClientAddress() if key is None else key
        self._legacy, self._refusal = legacy_headers, refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI asks."""
        limit = await self._limit_for(scope)
        if limit is None:
            await self._app(scope, receive, send)
            return
        cost = await value_of(self._cost(scope)) if callable(self._cost) else self._cost
        decision, permit = await aio_take(limit, await key_of(self._key, scope), cost)
        send = _with_fields(send, limit.http_headers(decision, legacy=self._legacy))
        try:
            if decision.allowed:
                await self._app(scope, receive, send)
            else:
                await self._refuse(limit, decision, scope, receive, send)
        finally:
            if permit is not None:
                permit.release()

    async def _limit_for(self, scope: Scope) -> AioLimit | None:
        if scope["type"] not in ("http", "websocket"):
            return None
        if self._skip is not None and await value_of(self._skip(scope)):
            return None
        if not callable(self._limit):
            return self._limit
        limit = await value_of(self._limit(scope))
        return None if limit is None else awaitable(limit)

    async def _refuse(
        self, limit: AioLimit, decision: Decision, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "websocket" and "websocket.http.response" not in (scope.get("extensions") or {}):
            await receive()
            await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
        elif self._refusal is not None:
            await self._refusal(scope, decision)(scope, receive, send)
        else:
            await _problem(limit.http_problem(decision).encode(), scope, receive, send)


async def key_of(source: KeySource, scope: Scope) -> str | bytes:
    """Who is being limited."""
    if not isinstance(source, ClientAddress):
        return await value_of(source(scope))
    wanted = source.header.encode()
    client = scope.get("client")
    values = [value for name, value in scope["headers"] if name.lower() == wanted]
    return source.key(client[0] if client else None, values)


def _with_fields(send: Send, fields: dict[str, str]) -> Send:
    async def send_with_fields(message: Message) -> None:
        if message["type"] in _STARTS:
            headers: Iterable[tuple[bytes, bytes]] = message.get("headers") or ()
            own = list(headers)
            added = additions((name.decode("latin-1") for name, _ in own), fields)
            # Names in lower case, as ASGI asks.
            ours = [(name.lower().encode(), value.encode()) for name, value in added]
            message = {**message, "headers": own + ours}
        await send(message)

    return send_with_fields


async def _problem(body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    prefix = ""
    if scope["type"] == "websocket":
        prefix = "websocket."
        await receive()
    headers = [(name.lower().encode(), value.encode()) for name, value in PROBLEM_HEADERS.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": f"{prefix}http.response.start", "status": HTTP_STATUS, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body})
