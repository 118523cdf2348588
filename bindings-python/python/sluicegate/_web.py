"""What the parts for web frameworks share."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import TypeVar

from ._sluicegate import HTTP_PROBLEM_CONTENT_TYPE

_T = TypeVar("_T")

PROBLEM_HEADERS = {"Content-Type": HTTP_PROBLEM_CONTENT_TYPE}


async def value_of(given: _T | Awaitable[_T]) -> _T:
    """What a function of the user's returned, whether it is async or not."""
    if inspect.isawaitable(given):
        awaited: _T = await given
        return awaited
    return given


def additions(present: Iterable[str], fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What to add to a response that has the fields ``present`` already.

    ``RateLimit`` and its policy are lists, so those of an inner limit stay and ours join them. Of the
    other fields there can be one only, and that is the inner one.
    """
    known = {name.lower() for name in present}
    for name, value in fields.items():
        if name.startswith("RateLimit") or name.lower() not in known:
            yield name, value
