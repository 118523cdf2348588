"""What each plan allows, and who has which: in your service, this is in a database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The spec is what a customer of this plan may use up, over all processes of the API."""

    name: str
    spec: str


@dataclass(frozen=True)
class Customer:
    name: str
    plan: Plan


# Two limits in one spec: both must admit.
FREE = Plan("free", "20/minute; 500/day")
PRO = Plan("pro", "100/minute burst 200")
ENTERPRISE = Plan("enterprise", "100/s burst 500")
PLANS = (FREE, PRO, ENTERPRISE)

# Guessing at API keys is limited too, for each address.
STRANGERS = "10/minute"

CUSTOMERS = {
    "key-of-ann": Customer("ann", FREE),
    "key-of-ben": Customer("ben", FREE),
    "key-of-pia": Customer("pia", PRO),
    "key-of-eve": Customer("eve", ENTERPRISE),
}
