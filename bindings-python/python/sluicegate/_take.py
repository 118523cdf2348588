"""One decision, with the permit that comes with it where the limit is one of concurrency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from ._errors import ArgumentError
from ._sluicegate import AioLimit, Limit

if TYPE_CHECKING:
    from ._sluicegate import Decision, Permit

Taken = tuple["Decision", "Permit | None"]


def take(limit: Limit, key: str | bytes, cost: SupportsIndex = 1, timeout: float | None = 0.0) -> Taken:
    """Take the turn that comes within ``timeout``; who gets a permit has to release it."""
    if _holds(limit, cost):
        permit = limit.hold(key, timeout)
        return permit.decision, permit
    if timeout == 0:
        return limit.try_acquire(key, cost), None
    return limit.acquire(key, cost, timeout), None


async def aio_take(
    limit: AioLimit, key: str | bytes, cost: SupportsIndex = 1, timeout: float | None = 0.0
) -> Taken:
    """The same, awaited."""
    if _holds(limit, cost):
        permit = await limit.hold(key, timeout)
        return permit.decision, permit
    if timeout == 0:
        return await limit.try_acquire(key, cost), None
    return await limit.acquire(key, cost, timeout), None


def _holds(limit: Limit | AioLimit, cost: SupportsIndex) -> bool:
    if not limit.spec.startswith("concurrency "):
        return False
    if cost.__index__() != 1:
        raise ArgumentError(f"cost must be 1 for a concurrency limit, got {cost}")
    return True


def blocking(limit: Any) -> Limit:
    """``limit``, if it is one for threads."""
    if isinstance(limit, Limit):
        return limit
    raise TypeError(f"limit must be a sluicegate.Limit or a callable that returns one, got {_name(limit)}")


def awaitable(limit: Any) -> AioLimit:
    """``limit``, if it is one for asyncio."""
    if isinstance(limit, AioLimit):
        return limit
    raise TypeError(
        f"limit must be a sluicegate.aio.Limit or a callable that returns one, got {_name(limit)}"
    )


def _name(thing: Any) -> str:
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
