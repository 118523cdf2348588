"""An API whose customers have plans.

uvicorn --no-proxy-headers --port 8000 app:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from limits import costs, key_of, known_customer, limit_of, limiter
from plans import Customer
from sluicegate.fastapi import RESPONSES, use_problem_details

Known = Annotated[Customer, Depends(known_customer)]


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with limiter:
        yield


app = FastAPI(title="Quotes", lifespan=lifespan)
use_problem_details(app)


@app.get("/quotes/{symbol}", dependencies=[Depends(costs(1))], responses=RESPONSES)
async def quote(symbol: str, customer: Known) -> dict[str, str]:
    return {"symbol": symbol, "price": "42.00", "for": customer.name}


@app.get("/reports/{year}", dependencies=[Depends(costs(10))], responses=RESPONSES)
async def report(year: int, customer: Known) -> dict[str, str]:
    """Takes a database ten times as long as a quote."""
    return {"report": f"all quotes of {year}", "for": customer.name}


@app.get("/usage")
async def usage(request: Request, response: Response, customer: Known) -> dict[str, str | int | float]:
    """What the plan allows and what is left; looking costs nothing."""
    limit = limit_of(request)
    decision = await limit.peek(key_of(request))
    response.headers.update(limit.http_headers(decision))
    return {
        "plan": customer.plan.name,
        "allows": limit.spec,
        "remaining": decision.remaining,
        "all_back_in": decision.reset_after,
    }


@app.get("/health")
async def health() -> dict[str, bool]:
    """For the load balancer: without a limit, so it answers whatever becomes of Redis."""
    return {"healthy": True}


@app.get("/status")
async def status() -> dict[str, str | int | float | None]:
    """For those who run it: how the limiter is."""
    now = limiter.status()
    return {
        "state": now.state,
        "since": now.since,
        "processes": now.processes,
        "rank": now.rank,
        "last_error": now.last_error,
    }
