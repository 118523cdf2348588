"""Permits under asyncio."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._sluicegate import Decision, Permit


class Hold(Coroutine[Any, Any, "Permit"]):
    """What ``sluicegate.aio.Limit.hold`` returns.

    Enter it with ``async with`` for the decision, and the permit is released on exit; or await it
    for the permit itself.
    """

    __slots__ = ("_call", "_permit")

    def __init__(self, call: Coroutine[Any, Any, Permit]) -> None:
        self._call = call
        self._permit: Permit | None = None

    def __await__(self) -> Generator[Any, Any, Permit]:
        return self._call.__await__()

    def send(self, value: Any, /) -> Any:
        """Go on, as asyncio asks of a coroutine."""
        return self._call.send(value)

    def throw(self, *error: Any) -> Any:
        """Give the call up, as asyncio asks of a coroutine."""
        return self._call.throw(*error)

    def close(self) -> None:
        """Give the call up."""
        self._call.close()

    async def __aenter__(self) -> Decision:
        self._permit = permit = await self._call
        return permit.decision

    async def __aexit__(self, *error: object) -> None:
        if self._permit is not None:
            self._permit.release()
