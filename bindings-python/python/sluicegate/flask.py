"""An extension for Flask.

import sluicegate
from sluicegate.flask import Limits

limiter = sluicegate.Limiter("redis://localhost:6379")
limits = Limits(app, default=limiter.limit("web", "100/s burst 200"))

@app.post("/login")
@limits.limit(limiter.limit("login", "5/minute"))
def log_in(): ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, SupportsIndex, TypeVar

from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import TooManyRequests

from ._errors import RateLimited
from ._sluicegate import HTTP_PROBLEM_CONTENT_TYPE, HTTP_STATUS, ClientAddress, Decision, Limit, Permit
from ._take import blocking, take
from ._web import additions
from .wsgi import key_of

__all__ = ["HTTPRateLimited", "Limits"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

LimitSource = Limit | Callable[[], Limit | None]
KeySource = ClientAddress | Callable[[], str | bytes]
CostSource = SupportsIndex | Callable[[], SupportsIndex]

_MARK = "_sluicegate_own_limits"


class HTTPRateLimited(RateLimited, TooManyRequests):
    """A refused request: 429 with problem details, unless ``app.errorhandler(429)`` answers it."""

    def __init__(self, decision: Decision, problem: str) -> None:
        super().__init__(decision)
        self.description = str(self)
        self.response = Response(problem, HTTP_STATUS, content_type=HTTP_PROBLEM_CONTENT_TYPE)


@dataclass
class _Taken:
    """What one request has taken."""

    decisions: list[tuple[Limit, Decision]] = field(default_factory=list)
    permits: list[Permit] = field(default_factory=list)


class Limits:
    """Holds views to limits: all of them to ``default``, those that are decorated to their own instead.

    app: the application; or call ``init_app`` later.
    default: a ``sluicegate.Limit``, or a function that returns one (plans, VIP tiers) or None, for no
        limit; no default limit unless said.
    key: a ``ClientAddress``, or a function. Unless said it is the address of the connection's other
        end; behind proxies give ``ClientAddress(trusted=[...])``.
    cost: a number, or a function; 1 unless said.
    skip: a function; where it is true, as for health checks, the default limit is not asked.
    legacy_headers: whether to add ``X-RateLimit-*`` too.

    The functions see Flask's ``request`` and ``g``. All responses get the header fields of the
    decision. A refusal is the exception ``HTTPRateLimited``, which ``app.errorhandler(429)`` may
    answer. A permit of a concurrency limit is held until the request is torn down.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        default: LimitSource | None = None,
        key: KeySource | None = None,
        cost: CostSource = 1,
        skip: Callable[[], bool] | None = None,
        legacy_headers: bool = False,
    ) -> None:
        if default is not None and not callable(default):
            blocking(default)
        self._default, self._cost, self._skip, self._legacy = default, cost, skip, legacy_headers
        self._key: KeySource = ClientAddress() if key is None else key
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Join an application that is made later."""
        app.extensions["sluicegate"] = self
        app.before_request(self._before)
        app.after_request(self._after)
        app.teardown_request(self._teardown)

    def limit(
        self, limit: LimitSource, *, key: KeySource | None = None, cost: CostSource = 1
    ) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
        """Decorate a view: hold it to this limit instead of the default.

        ``key`` is that of the extension unless said. The decorator of the route comes above this one.
        """
        if not callable(limit):
            blocking(limit)

        def decorate(view: Callable[_P, _T]) -> Callable[_P, _T]:
            @wraps(view)
            def limited(*args: _P.args, **kwargs: _P.kwargs) -> _T:
                self._take(limit, self._key if key is None else key, cost)
                called: _T = current_app.ensure_sync(view)(*args, **kwargs)
                return called

            return self.exempt(limited)

        return decorate

    def exempt(self, view: Callable[_P, _T]) -> Callable[_P, _T]:
        """Decorate a view: do not hold it to the default limit."""
        setattr(view, _MARK, True)
        return view

    def _take(self, source: LimitSource, key: KeySource, cost: CostSource) -> None:
        found = source() if callable(source) else source
        if found is None:
            return
        limit = blocking(found)
        who = key_of(key, request.environ) if isinstance(key, ClientAddress) else key()
        decision, permit = take(limit, who, cost() if callable(cost) else cost)
        taken = _taken()
        taken.decisions.append((limit, decision))
        if permit is not None:
            taken.permits.append(permit)
        if not decision.allowed:
            raise HTTPRateLimited(decision, limit.http_problem(decision))

    def _before(self) -> None:
        view: Any = current_app.view_functions.get(request.endpoint or "")
        if self._default is None or getattr(view, _MARK, False):
            return
        if self._skip is None or not self._skip():
            self._take(self._default, self._key, self._cost)

    def _after(self, response: Response) -> Response:
        for limit, decision in _taken().decisions:
            fields = limit.http_headers(decision, legacy=self._legacy)
            for name, value in list(additions(response.headers.keys(), fields)):
                response.headers.add(name, value)
        return response

    def _teardown(self, _error: BaseException | None) -> None:
        for permit in _taken().permits:
            permit.release()


def _taken() -> _Taken:
    taken: _Taken = g.setdefault("_sluicegate", _Taken())
    return taken
