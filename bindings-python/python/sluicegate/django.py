"""A middleware for Django, and a decorator for its views.

    # settings.py
    MIDDLEWARE.insert(0, "sluicegate.django.RateLimitMiddleware")
    SLUICEGATE = {"URL": "redis://localhost:6379", "LIMIT": "100/s burst 200"}

    # views.py
    @rate_limit("login", "5/minute")
    def log_in(request): ...

``SLUICEGATE`` may have these entries, and no others. A function may be given as itself or as the
dotted path to it; it is called with the request, and may be async where the view or, for the
middleware, the server is.

URL: where the store is; ``"memory://"`` unless said.
OPTIONS: further options of ``sluicegate.Limiter``, such as ``{"prefix": "shop", "timeout": 0.05}``.
LIMIT: the middleware's spec, or a function that returns one (plans, VIP tiers) or None, for no limit.
NAME: the name of the middleware's limit; ``"django"`` unless said.
KEY: a ``ClientAddress``, or a function. Unless said it is the address of the connection's other end;
    behind proxies give ``ClientAddress(trusted=[...])``.
COST: a number, or a function; 1 unless said.
SKIP: a function; where it is true, as for health checks, the middleware asks and adds nothing.
LEGACY_HEADERS: whether to add ``X-RateLimit-*`` too.
REFUSAL: a function of the request and the decision that returns a response, to answer instead of 429
    with problem details.

Views that are not async are decided by a ``sluicegate.Limiter``, async ones by a
``sluicegate.aio.Limiter``. In Redis they share their limits; on ``memory://`` each has its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, wraps
from threading import Lock
from typing import Any, SupportsIndex, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from . import _sluicegate
from ._sluicegate import AioLimit, ClientAddress, Decision, Limit, Permit
from ._take import aio_take, take
from ._web import PROBLEM_HEADERS, additions, value_of

__all__ = ["RateLimitMiddleware", "aio_limiter", "limiter", "rate_limit"]

_View = TypeVar("_View", bound=Callable[..., Any])

SpecSource = str | Callable[[HttpRequest], str | Awaitable[str | None] | None]
KeySource = ClientAddress | Callable[[HttpRequest], str | bytes | Awaitable[str | bytes]]
CostSource = SupportsIndex | Callable[[HttpRequest], SupportsIndex | Awaitable[SupportsIndex]]

_FUNCTIONS = ("KEY", "COST", "SKIP", "REFUSAL")
_ENTRIES = ("URL", "OPTIONS", "LIMIT", "NAME", "LEGACY_HEADERS", *_FUNCTIONS)


class _Settings:
    """``settings.SLUICEGATE``, and the limiters that it asks for."""

    def __init__(self) -> None:
        given: dict[str, Any] = getattr(settings, "SLUICEGATE", {})
        for name in given:
            if name not in _ENTRIES:
                known = ", ".join(_ENTRIES)
                raise ImproperlyConfigured(f"SLUICEGATE has an entry {name!r}; allowed are {known}")
        self._given = given
        key, self.cost, self.skip, self.refusal = (_loaded(given.get(name)) for name in _FUNCTIONS)
        self.key: KeySource = ClientAddress() if key is None else key
        self.legacy = bool(given.get("LEGACY_HEADERS", False))
        self.name: str = given.get("NAME", "django")
        self.spec = given.get("LIMIT")
        # A dotted path has no spaces and no slash, which every spec with a rate has.
        if isinstance(self.spec, str) and "/" not in self.spec and " " not in self.spec:
            self.spec = import_string(self.spec)

    def _options(self) -> dict[str, Any]:
        return {"url": self._given.get("URL"), **self._given.get("OPTIONS", {})}

    @cached_property
    def limiter(self) -> _sluicegate.Limiter:
        return _sluicegate.Limiter(**self._options())

    @cached_property
    def aio_limiter(self) -> _sluicegate.AioLimiter:
        return _sluicegate.AioLimiter(**self._options())

    def limit(self, name: str, spec: str) -> Limit:
        """A limit for threads."""
        return self.limiter.limit(name, spec)

    def aio_limit(self, name: str, spec: str) -> AioLimit:
        """A limit for asyncio."""
        return self.aio_limiter.limit(name, spec)


def _loaded(given: Any) -> Any:
    return import_string(given) if isinstance(given, str) else given


class _Kept:
    """The settings, once they were asked for: before, Django may not have read its own."""

    settings: _Settings | None = None
    lock = Lock()


def _settings() -> _Settings:
    with _Kept.lock:
        if _Kept.settings is None:
            _Kept.settings = _Settings()
        return _Kept.settings


def _forget(*, setting: str, **_: Any) -> None:
    # Tests override settings.
    if setting == "SLUICEGATE":
        _Kept.settings = None


setting_changed.connect(_forget)


def limiter() -> _sluicegate.Limiter:
    """The limiter that decides for views that are not async; see its ``status()``."""
    return _settings().limiter


def aio_limiter() -> _sluicegate.AioLimiter:
    """The limiter that decides for async views; see its ``status()``."""
    return _settings().aio_limiter


class _Rule:
    """What one middleware or decorator asks of a request."""

    def __init__(
        self, name: str, spec: SpecSource, key: KeySource | None = None, cost: CostSource | None = None
    ) -> None:
        self._name, self._spec, self._key, self._cost = name, spec, key, cost

    def take(self, request: HttpRequest) -> _Taken | None:
        """Decide on a thread that may block."""
        spec = self._spec(request) if callable(self._spec) else self._spec
        if spec is None:
            return None
        limit = _settings().limit(self._name, cast("str", spec))
        key, cost = self._who(request), self._how_much(request)
        return _Taken(limit, *take(limit, cast("str | bytes", key), cast("SupportsIndex", cost)))

    async def aio_take(self, request: HttpRequest) -> _Taken | None:
        """Decide on an event loop."""
        spec = await value_of(self._spec(request)) if callable(self._spec) else self._spec
        if spec is None:
            return None
        limit = _settings().aio_limit(self._name, spec)
        key: str | bytes = await value_of(self._who(request))
        return _Taken(limit, *await aio_take(limit, key, await value_of(self._how_much(request))))

    def _who(self, request: HttpRequest) -> str | bytes | Awaitable[str | bytes]:
        source = _settings().key if self._key is None else self._key
        if not isinstance(source, ClientAddress):
            return source(request)
        name = "HTTP_" + source.header.upper().replace("-", "_")
        return source.key(request.META.get("REMOTE_ADDR"), request.META.get(name))

    def _how_much(self, request: HttpRequest) -> SupportsIndex | Awaitable[SupportsIndex]:
        source: CostSource | None = _settings().cost if self._cost is None else self._cost
        if source is None:
            return 1
        return source(request) if callable(source) else source


class _Taken:
    """A decision, and how it is said."""

    def __init__(self, limit: Limit | AioLimit, decision: Decision, permit: Permit | None) -> None:
        self._limit, self.decision, self._permit = limit, decision, permit

    def refusal(self, request: HttpRequest) -> Any:
        """The response, or its coroutine."""
        if (refusal := _settings().refusal) is not None:
            return refusal(request, self.decision)
        response = HttpResponse(self._limit.http_problem(self.decision), status=_sluicegate.HTTP_STATUS)
        for name, value in PROBLEM_HEADERS.items():
            response[name] = value
        return response

    def said_in(self, response: HttpResponseBase) -> HttpResponseBase:
        """The response with the header fields, and with the permit if there is one."""
        fields = self._limit.http_headers(self.decision, legacy=_settings().legacy)
        for name, value in additions(response.headers, fields):
            # One field of a name is all that Django has.
            response[name] = f"{response[name]}, {value}" if name in response else value
        if self._permit is not None:
            _at_end(response, self._permit)
        return response

    def failed(self) -> None:
        """There is no response."""
        if self._permit is not None:
            self._permit.release()


def _at_end(response: HttpResponseBase, permit: Permit) -> None:
    """Give the permit back when the response is closed."""
    response._resource_closers.append(permit.release)  # type: ignore[attr-defined]


class RateLimitMiddleware:
    """Holds requests to ``SLUICEGATE["LIMIT"]``, under WSGI and ASGI."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        spec = _settings().spec
        if spec is None:
            raise ImproperlyConfigured("SLUICEGATE must have an entry LIMIT for RateLimitMiddleware")
        self._limited = _limited(_Rule(_settings().name, spec), get_response)
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Serve a request, as Django asks."""
        if self._is_async:
            return self._serve(request)
        skip = _settings().skip
        return self._get_response(request) if skip is not None and skip(request) else self._limited(request)

    async def _serve(self, request: HttpRequest) -> HttpResponseBase:
        skip = _settings().skip
        skipped = skip is not None and await value_of(skip(request))
        response = await (self._get_response(request) if skipped else self._limited(request))
        return cast("HttpResponseBase", response)


def rate_limit(
    name: str, spec: SpecSource, *, key: KeySource | None = None, cost: CostSource = 1
) -> Callable[[_View], _View]:
    """Decorate a view, async or not: hold it to a limit of its own, beside the middleware's.

    ``name`` is that of the limit, ``spec`` its spec or a function of the request. ``key`` is as
    ``SLUICEGATE["KEY"]`` says, unless it is given.
    """
    rule = _Rule(name, spec, key, cost)

    def decorate(view: _View) -> _View:
        return cast("_View", wraps(view)(_limited(rule, view)))

    return decorate


def _limited(rule: _Rule, view: Callable[..., Any]) -> Callable[..., Any]:
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        taken = rule.take(request)
        if taken is None:
            return view(request, *args, **kwargs)
        try:
            response = view(request, *args, **kwargs) if taken.decision.allowed else taken.refusal(request)
        except BaseException:
            taken.failed()
            raise
        return taken.said_in(response)

    async def aio_answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        taken = await rule.aio_take(request)
        if taken is None:
            return await view(request, *args, **kwargs)
        try:
            if taken.decision.allowed:
                response = await view(request, *args, **kwargs)
            else:
                response = await value_of(taken.refusal(request))
        except BaseException:
            taken.failed()
            raise
        return taken.said_in(response)

    return aio_answer if iscoroutinefunction(view) else answer
