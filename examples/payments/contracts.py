"""What each provider allows all of us together, and the limits that keep us within it.

A call takes its time from our turn to the provider's door, and there it may come closer to the next one
than their turns were. So a rate that we keep leaves room for all calls that are on their way at a moment,
`ON_THE_WAY` at most. Places at a provider need no such room: a permit is held until the answer is there.
"""

from __future__ import annotations

from dataclasses import dataclass

# Each worker makes so many payments at once at a provider; more workers need wider contracts or lower rates.
AT_ONCE = 3
MOST_WORKERS = 4
ON_THE_WAY = AT_ONCE * MOST_WORKERS


@dataclass(frozen=True)
class Contract:
    """What the provider allows."""

    name: str
    # So many calls in any stretch of so many seconds.
    rates: tuple[tuple[int, float], ...]
    # So many calls at the same time; None is any number.
    places: int | None
    # How long the provider takes for a payment, in seconds.
    takes: float
    # What we hold ourselves to: the spec of a rate, and of a concurrency limit.
    rate_spec: str
    places_spec: str | None = None


CONTRACTS = (
    # Two limits at once, in one spec.
    Contract(
        name="cards",
        rates=((20 + ON_THE_WAY, 1.0), (60 + ON_THE_WAY, 5.0)),
        places=None,
        takes=0.02,
        rate_spec="sliding-log 20/s; sliding-log 60/5s",
    ),
    # One call after the other, at a constant pace.
    Contract(
        name="transfers",
        rates=((10 + 1 + ON_THE_WAY, 1.0),),
        places=None,
        takes=0.05,
        rate_spec="leaky-bucket 10/s queue 100",
    ),
    # A few at the same time, and not too many in a second either.
    Contract(
        name="wallets",
        rates=((15 + 5 + ON_THE_WAY, 1.0),),
        places=4,
        takes=0.15,
        rate_spec="15/s burst 5",
        places_spec="concurrency 4 ttl 30s",
    ),
)
