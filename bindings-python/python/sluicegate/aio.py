"""The same names as ``sluicegate``, for asyncio: every verb of a limit is awaitable.

    from sluicegate.aio import Limiter

    async with Limiter("redis://localhost:6379") as limiter:
        login = limiter.limit("login", "100/s burst 200")
        if await login.try_acquire("user:42"):
            ...

A call starts when it is awaited or made a task. A task that is cancelled gives its turn back. A
limiter may be used from any number of event loops; each watches one descriptor of ours, so the loop
must have ``add_reader``, as those of asyncio on Unix and of uvloop have.
"""

from ._errors import (
    ArgumentError,
    ClosedError,
    ConfigError,
    Error,
    InternalError,
    OutageError,
    RateLimited,
    SpecError,
    UnsupportedError,
)
from ._hold import Hold
from ._sluicegate import (
    HTTP_PROBLEM_CONTENT_TYPE,
    HTTP_STATUS,
    ClientAddress,
    Decision,
    ManualClock,
    Permit,
    Status,
)
from ._sluicegate import AioLimit as Limit
from ._sluicegate import AioLimiter as Limiter

__all__ = [
    "HTTP_PROBLEM_CONTENT_TYPE",
    "HTTP_STATUS",
    "ArgumentError",
    "ClientAddress",
    "ClosedError",
    "ConfigError",
    "Decision",
    "Error",
    "Hold",
    "InternalError",
    "Limit",
    "Limiter",
    "ManualClock",
    "OutageError",
    "Permit",
    "RateLimited",
    "SpecError",
    "Status",
    "UnsupportedError",
]
