"""A limit for any WSGI application.

import sluicegate
from sluicegate.wsgi import RateLimitMiddleware

limit = sluicegate.Limiter("redis://localhost:6379").limit("api", "100/s burst 200")
app = RateLimitMiddleware(app, limit)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._sluicegate import HTTP_STATUS, ClientAddress, Decision, Limit, Permit
from ._take import blocking, take
from ._web import PROBLEM_HEADERS, additions

if TYPE_CHECKING:
    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["RateLimitMiddleware"]

LimitSource = Limit | Callable[["WSGIEnvironment"], Limit | None]
KeySource = ClientAddress | Callable[["WSGIEnvironment"], str | bytes]
CostSource = SupportsIndex | Callable[["WSGIEnvironment"], SupportsIndex]


class RateLimitMiddleware:
    """Holds requests to a limit.

    limit: a ``sluicegate.Limit``, or a function of the environ that returns one (plans, VIP tiers) or
        None, for no limit.
    key: a ``ClientAddress``, or a function of the environ. Unless said it is the address of the
        connection's other end; behind proxies give ``ClientAddress(trusted=[...])``.
    cost: a number, or a function of the environ; 1 unless said.
    skip: a function of the environ; where it is true, as for health checks, nothing is asked or added.
    legacy_headers: whether to add ``X-RateLimit-*`` too.
    refusal: a function of the environ and the decision that returns a WSGI application, such as a
        response of Werkzeug's, to answer instead of 429 with problem details.

    All responses get the header fields of the decision. A permit of a concurrency limit is held until
    the server closes the response.
    """

    def __init__(
        self,
        app: WSGIApplication,
        limit: LimitSource,
        *,
        key: KeySource | None = None,
        cost: CostSource = 1,
        skip: Callable[[WSGIEnvironment], bool] | None = None,
        legacy_headers: bool = False,
        refusal: Callable[[WSGIEnvironment, Decision], WSGIApplication] | None = None,
    ) -> None:
        if not callable(limit):
            blocking(limit)
        self._app, self._limit, self._cost, self._skip = app, limit, cost, skip
        self._key = ClientAddress() if key is None else key
        self._legacy, self._refusal = legacy_headers, refusal

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request, as WSGI asks."""
        if self._skip is not None and self._skip(environ):
            return self._app(environ, start_response)
        found = self._limit(environ) if callable(self._limit) else self._limit
        if found is None:
            return self._app(environ, start_response)
        limit = blocking(found)
        cost = self._cost(environ) if callable(self._cost) else self._cost
        decision, permit = take(limit, key_of(self._key, environ), cost)
        start = _with_fields(start_response, limit.http_headers(decision, legacy=self._legacy))
        if not decision.allowed:
            if self._refusal is not None:
                return self._refusal(environ, decision)(environ, start)
            return _problem(limit.http_problem(decision).encode(), start)
        if permit is None:
            return self._app(environ, start)
        try:
            return _Held(self._app(environ, start), permit)
        except BaseException:
            permit.release()
            raise


def key_of(source: KeySource, environ: WSGIEnvironment) -> str | bytes:
    """Who is being limited."""
    if not isinstance(source, ClientAddress):
        return source(environ)
    name = "HTTP_" + source.header.upper().replace("-", "_")
    return source.key(environ.get("REMOTE_ADDR"), environ.get(name))


def _with_fields(start_response: StartResponse, fields: dict[str, str]) -> StartResponse:
    def start(
        status: str, headers: list[tuple[str, str]], exc_info: OptExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        ours = additions([name for name, _ in headers], fields)
        return start_response(status, [*headers, *ours], exc_info)

    return start


def _problem(body: bytes, start: StartResponse) -> Iterable[bytes]:
    status = f"{HTTP_STATUS} {HTTPStatus(HTTP_STATUS).phrase}"
    start(status, [*PROBLEM_HEADERS.items(), ("Content-Length", str(len(body)))])
    return [body]


class _Held:
    """A response whose end gives a permit back."""

    def __init__(self, body: Iterable[bytes], permit: Permit) -> None:
        self._body, self._permit = body, permit

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """The server is through with it."""
        close: Any = getattr(self._body, "close", None)
        try:
            if close is not None:
                close()
        finally:
            self._permit.release()
