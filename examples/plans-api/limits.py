"""Which limit a request is held to, and as whom."""

from __future__ import annotations

import os

from fastapi import HTTPException
from plans import CUSTOMERS, PLANS, STRANGERS, Customer
from sluicegate import ClientAddress
from sluicegate.aio import Limit, Limiter
from sluicegate.fastapi import RateLimit
from starlette.requests import HTTPConnection

limiter = Limiter(os.environ.get("REDIS_URL", "memory://"))
# Made once: a plan is chosen for each request, its limit is there already.
_of_plan = {plan: limiter.limit(f"plan-{plan.name}", plan.spec) for plan in PLANS}
_strangers = limiter.limit("strangers", STRANGERS)
# Nobody unless said: whoever is trusted here can say that he is anybody.
_address = ClientAddress(trusted=os.environ.get("TRUSTED_PROXIES", "").split())


def known_customer(connection: HTTPConnection) -> Customer:
    """A dependency: who asks, by his API key."""
    customer = _customer(connection)
    if customer is None:
        raise HTTPException(401, "an API key is needed, in the field X-API-Key")
    return customer


def costs(units: int) -> RateLimit:
    """A dependency: takes so many units from what the customer's plan allows."""
    return RateLimit(limit_of, key=key_of, cost=units)


def limit_of(connection: HTTPConnection) -> Limit:
    customer = _customer(connection)
    return _strangers if customer is None else _of_plan[customer.plan]


def key_of(connection: HTTPConnection) -> str:
    customer = _customer(connection)
    if customer is not None:
        return customer.name
    peer = None if connection.client is None else connection.client.host
    return _address.key(peer, connection.headers.getlist(_address.header))


def _customer(connection: HTTPConnection) -> Customer | None:
    return CUSTOMERS.get(connection.headers.get("x-api-key", ""))
