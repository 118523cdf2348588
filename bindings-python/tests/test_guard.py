"""`limit.guard`: a decorator and a context manager that raise."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import sluicegate
from sluicegate import Limiter, ManualClock, RateLimited, aio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_function_is_held_to_the_limit(clock: ManualClock) -> None:
    limit = Limiter(clock=clock).limit("mails", "2/m")
    sent: list[str] = []

    @limit.guard(key=lambda user, *, text: user)
    def send(user: str, *, text: str) -> int:
        """Send it."""
        sent.append(user)
        return len(sent)

    assert (send("ann", text="a"), send("bob", text="b"), send("ann", text="c")) == (1, 2, 3)
    with pytest.raises(RateLimited, match=r"retry after 30 s") as caught:
        send("ann", text="d")
    assert not caught.value.decision.allowed
    assert sent == ["ann", "bob", "ann"]
    assert send.__doc__ == "Send it."
    clock.advance(30)
    assert send("ann", text="d") == 4


def test_a_cost_is_a_number_or_a_function(clock: ManualClock) -> None:
    limit = Limiter(clock=clock).limit("pages", "10/m")

    @limit.guard("all", cost=lambda pages: pages)
    def fetch(pages: int) -> int:
        return pages

    fetch(7)
    with pytest.raises(RateLimited):
        fetch(4)
    fetch(3)
    assert limit.peek("all").remaining == 0


def test_a_block_is_held_to_the_limit(clock: ManualClock) -> None:
    guard = Limiter(clock=clock).limit("blocks", "3/m").guard(key="k", cost=2)
    with guard as decision:
        assert decision.remaining == 1
    with pytest.raises(RateLimited), guard:
        raise AssertionError("the body ran")


def test_a_permit_is_held_until_the_end() -> None:
    limit = Limiter().limit("jobs", "concurrency 1 ttl 30s")
    guard = limit.guard("k")

    @guard
    def job(depth: int) -> None:
        if depth:
            job(depth - 1)

    job(0)
    with pytest.raises(RateLimited):
        job(1)
    with guard:
        with pytest.raises(RateLimited):
            job(0)
        with pytest.raises(RateLimited), guard:
            pass
    with pytest.raises(ZeroDivisionError), guard:
        _ = 1 / 0
    job(0)
    with pytest.raises(sluicegate.ArgumentError, match="cost must be 1 for a concurrency limit, got 2"):
        limit.guard("k", cost=2).__enter__()


def test_one_guard_serves_many_threads() -> None:
    guard = Limiter().limit("threads", "concurrency 4 ttl 30s").guard("k", timeout=30.0)
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with guard:
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert 1 <= most <= 4


def test_async_functions_and_blocks() -> None:
    clock = ManualClock()

    async def main() -> None:
        limiter = aio.Limiter(clock=clock)
        guard = limiter.limit("calls", "2/m").guard(key="k")

        @guard
        async def call(text: str) -> str:
            await asyncio.sleep(0)
            return text

        assert await asyncio.create_task(call("a")) == "a"
        async with guard as decision:
            assert decision.remaining == 0
        with pytest.raises(RateLimited):
            await call("b")
        with pytest.raises(RateLimited):
            async with guard:
                raise AssertionError("the body ran")

        jobs = limiter.limit("jobs", "concurrency 1 ttl 30s").guard(key=lambda: "k")

        @jobs
        async def job() -> None:
            await asyncio.sleep(0.01)

        results = await asyncio.gather(job(), job(), job(), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), RateLimited, RateLimited]
        await job()

    asyncio.run(main())


def test_a_guard_waits_its_turn() -> None:
    limit = Limiter().limit("turns", "20/s burst 1")
    guard = limit.guard("k", timeout=30.0)
    for _ in range(3):
        with guard:
            pass
    with pytest.raises(RateLimited):
        limit.guard("k", cost=1, timeout=0.001).__enter__()


def test_what_does_not_fit_is_a_type_error() -> None:
    limit, awaitable = Limiter().limit("a", "1/s"), aio.Limiter().limit("a", "1/s")
    guard: Any = limit.guard("k")
    aio_guard: Any = awaitable.guard("k")

    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match=r"sluicegate\.aio\.Limit"):
        guard(coroutine)
    with pytest.raises(TypeError, match="async def"):
        aio_guard(print)
    with pytest.raises(TypeError, match="key"):
        limit.guard()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="must be values"):
        limit.guard(key=lambda: "k").__enter__()
