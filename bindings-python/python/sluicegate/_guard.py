"""What ``Limit.guard`` returns: a decorator and a context manager that raise ``RateLimited``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

from ._errors import RateLimited
from ._take import aio_take, take

if TYPE_CHECKING:
    from ._sluicegate import AioLimit, Decision, Limit, Permit

_P = ParamSpec("_P")
_T = TypeVar("_T")

Key = str | bytes | Callable[..., str | bytes]
Cost = SupportsIndex | Callable[..., SupportsIndex]


class _Settings:
    def __init__(self, key: Key, cost: Cost = 1, timeout: float | None = 0.0) -> None:
        self._key, self._cost, self._timeout = key, cost, timeout
        # Those of the blocks that run now. Permits on one key are alike, so any will do at an end.
        self._permits: list[Permit | None] = []

    def _asked(self, *args: Any, **kwargs: Any) -> tuple[str | bytes, SupportsIndex, float | None]:
        key = self._key(*args, **kwargs) if callable(self._key) else self._key
        cost = self._cost(*args, **kwargs) if callable(self._cost) else self._cost
        return key, cost, self._timeout

    def _for_block(self) -> tuple[str | bytes, SupportsIndex, float | None]:
        if callable(self._key) or callable(self._cost):
            raise TypeError("key and cost of a block must be values: it has no arguments to make them from")
        return self._key, self._cost, self._timeout

    def _leave(self) -> None:
        permit = self._permits.pop()
        if permit is not None:
            permit.release()


class Guard(_Settings):
    """A decorator for plain functions, and a context manager.

    It may be used any number of times, from any number of threads.
    """

    def __init__(self, limit: Limit, key: Key, cost: Cost = 1, timeout: float | None = 0.0) -> None:
        super().__init__(key, cost, timeout)
        self._limit = limit

    def __call__(self, function: Callable[_P, _T], /) -> Callable[_P, _T]:
        """Hold every call of ``function`` to the limit."""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("an async function needs the guard of a sluicegate.aio.Limit")

        @wraps(function)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            decision, permit = take(self._limit, *self._asked(*args, **kwargs))
            if not decision.allowed:
                raise RateLimited(decision)
            try:
                return function(*args, **kwargs)
            finally:
                if permit is not None:
                    permit.release()

        return guarded

    def __enter__(self) -> Decision:
        decision, permit = take(self._limit, *self._for_block())
        if not decision.allowed:
            raise RateLimited(decision)
        self._permits.append(permit)
        return decision

    def __exit__(self, *_error: object) -> None:
        self._leave()


class AioGuard(_Settings):
    """A decorator for async functions, and an async context manager.

    It may be used any number of times, from any number of tasks.
    """

    def __init__(self, limit: AioLimit, key: Key, cost: Cost = 1, timeout: float | None = 0.0) -> None:
        super().__init__(key, cost, timeout)
        self._limit = limit

    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _T]], /
    ) -> Callable[_P, Coroutine[Any, Any, _T]]:
        """Hold every call of ``function`` to the limit."""
        if not inspect.iscoroutinefunction(function):
            raise TypeError("the guard of a sluicegate.aio.Limit needs a function made by async def")

        @wraps(function)
        async def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            decision, permit = await aio_take(self._limit, *self._asked(*args, **kwargs))
            if not decision.allowed:
                raise RateLimited(decision)
            try:
                return await function(*args, **kwargs)
            finally:
                if permit is not None:
                    permit.release()

        return guarded

    async def __aenter__(self) -> Decision:
        decision, permit = await aio_take(self._limit, *self._for_block())
        if not decision.allowed:
            raise RateLimited(decision)
        self._permits.append(permit)
        return decision

    async def __aexit__(self, *_error: object) -> None:
        self._leave()


def guard(limit: Limit) -> partial[Guard]:
    """What ``Limit.guard`` is called on."""
    return partial(Guard, limit)


def aio_guard(limit: AioLimit) -> partial[AioGuard]:
    """What ``aio.Limit.guard`` is called on."""
    return partial(AioGuard, limit)
