"""The exceptions. Being over a limit is none of them: that is a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._sluicegate import Decision


class Error(Exception):
    """What all errors of Sluicegate are."""


class SpecError(Error, ValueError):
    """The text of a spec can't be read or can't be met: correct the spec."""


class ArgumentError(Error, ValueError):
    """An argument of a call is out of range: correct the call."""


class ConfigError(Error, ValueError):
    """A URL or an option of the limiter is wrong: correct the configuration."""


class UnsupportedError(Error):
    """The verb has no meaning for the limit's algorithm: use another verb or algorithm."""


class OutageError(Error):
    """The store is away and the limit says ``on_outage="raise"``: try later, or choose another mode."""


class ClosedError(Error):
    """The limiter was closed: open another."""


class InternalError(Error):
    """A defect in Sluicegate itself: report it."""


class RateLimited(Error):
    """What decorators and guards raise for a refused call. No verb raises it."""

    decision: Decision
    """The refusal."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    def __str__(self) -> str:
        after = self.decision.retry_after
        return "over the limit" if after is None else f"over the limit; retry after {after:g} s"


for _error in (*Error.__subclasses__(), Error):
    _error.__module__ = "sluicegate"
