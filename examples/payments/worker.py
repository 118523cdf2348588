"""A payment worker: makes payments at the providers, each when its turn has come.

python worker.py STORE PROVIDERS < payments

STORE is the URL of the limits, PROVIDERS that of the providers. The input is what to pay, one
`provider number` a line; the output is what was done, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from contracts import AT_ONCE, CONTRACTS, Contract
from sluicegate.aio import Decision, Limit, Limiter

# A payment whose turn is further away than this goes back to the queue, so that others are not held up.
PATIENCE_S = 3.0
# For so long it is left alone: it may also be that the store is away.
PAUSE_S = 0.2
# All workers are one customer to a provider.
KEY = "us"


class Lane:
    """The way to one provider."""

    def __init__(self, contract: Contract, limiter: Limiter, client: httpx.AsyncClient) -> None:
        self.waiting: deque[int] = deque()
        self.done: Counter[str] = Counter()
        self._name, self._client = contract.name, client
        self._rate = limiter.limit(f"{contract.name}-rate", contract.rate_spec)
        self._places: Limit | None = None
        if contract.places_spec is not None:
            self._places = limiter.limit(f"{contract.name}-places", contract.places_spec)

    async def work(self) -> None:
        """Pays until nothing waits."""
        while self.waiting:
            payment = self.waiting.popleft()
            async with self._turn() as decision:
                if decision.allowed:
                    await self._pay(payment)
            if not decision.allowed:
                self.done["put back"] += 1
                self.waiting.append(payment)
                await asyncio.sleep(PAUSE_S)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Decision]:
        """A place comes first: whoever has his turn must be able to go."""
        if self._places is None:
            yield await self._rate.acquire(KEY, timeout=PATIENCE_S)
            return
        async with self._places.hold(KEY, timeout=PATIENCE_S) as place:
            yield await self._rate.acquire(KEY, timeout=PATIENCE_S) if place.allowed else place

    async def _pay(self, payment: int) -> None:
        response = await self._client.post(f"/{self._name}/{payment}")
        if response.status_code == 429:
            # The contract is broken. The provider has counted it, and we don't hide it.
            self.done["refused"] += 1
            return
        response.raise_for_status()
        self.done["paid"] += 1


async def run(store: str, providers: str) -> None:
    # Payments can wait: in an outage nothing is paid rather than a contract broken.
    async with (
        Limiter(store, timeout=2.0, on_outage="deny") as limiter,
        httpx.AsyncClient(base_url=providers, timeout=30.0) as client,
    ):
        lanes = {contract.name: Lane(contract, limiter, client) for contract in CONTRACTS}
        for line in sys.stdin:
            provider, number = line.split()
            lanes[provider].waiting.append(int(number))
        await asyncio.gather(*(lane.work() for lane in lanes.values() for _ in range(AT_ONCE)))
        print(json.dumps({name: lane.done for name, lane in lanes.items()}))


asyncio.run(run(*sys.argv[1:]))
