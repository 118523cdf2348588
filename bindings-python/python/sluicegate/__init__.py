"""One rate limit, shared by every process that names it, whatever its language.

    import sluicegate

    limiter = sluicegate.Limiter("redis://localhost:6379")
    login = limiter.limit("login", "100/s burst 200")
    if login.try_acquire("user:42"):
        ...

Being over a limit is a value, never an exception: a ``Decision`` that is false. All durations are
seconds, as floats of whole microseconds. ``sluicegate.aio`` has the same names for asyncio. The logger
``sluicegate`` hears when the store is away and back.
"""

import logging

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
from ._sluicegate import (
    HTTP_PROBLEM_CONTENT_TYPE,
    HTTP_STATUS,
    ClientAddress,
    Decision,
    Limit,
    Limiter,
    ManualClock,
    Permit,
    Status,
    __version__,
)

__all__ = [
    "HTTP_PROBLEM_CONTENT_TYPE",
    "HTTP_STATUS",
    "ArgumentError",
    "ClientAddress",
    "ClosedError",
    "ConfigError",
    "Decision",
    "Error",
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
    "__version__",
]

# As libraries do: who wants to hear of outages configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())
del logging
