"""The verbs of asyncio: as coroutines, under cancellation, in several loops, in loops that are closed."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import sluicegate
from sluicegate import ArgumentError, Decision, ManualClock
from sluicegate.aio import Limit, Limiter

PATIENCE = 20.0
KEYS = ["k", *(f"k{number}" for number in range(9))]
Run = Callable[[Coroutine[Any, Any, None]], None]


def run_uvloop(main: Coroutine[Any, Any, None]) -> None:
    pytest.importorskip("uvloop").run(main)


def run_debug(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main, debug=True)


@pytest.fixture(params=[asyncio.run, run_debug, run_uvloop], ids=["asyncio", "debug", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    way: Run = request.param
    return way


def waiting_limit(clock: ManualClock) -> Limit:
    """A limit whose next turn is a minute away."""
    limit = Limiter(clock=clock).limit("wait", "1/m")
    asyncio.run(spend(limit))
    return limit


async def spend(limit: Limit) -> None:
    for key in KEYS:
        assert await limit.try_acquire(key)


async def until(true: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async def look() -> None:
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    await asyncio.wait_for(look(), PATIENCE)


def test_every_verb(run: Run, store: str, url: str, prefix: str) -> None:
    async def main() -> None:
        async with Limiter(url, prefix=prefix, timeout=5.0) as limiter:
            limit = limiter.limit("verbs", "10/h")
            assert (limit.name, limit.spec) == ("verbs", "10/h")
            assert (await limit.try_acquire("k", 2)).source == store
            assert (await limit.acquire("k", cost=2, timeout=1.0)).remaining == 6
            assert (await limit.reserve("k", 7, max_wait=3600)).wait > 300
            assert not await limit.peek("k")
            assert (await limit.refund("k", 3)).allowed
            await limit.reset("k")
            assert (await limit.peek(b"k")).remaining == 10
            both = await limiter.try_acquire_all([(limit, "a", 1), (limit, "b", 2)])
            assert both.allowed
            assert both.remaining == 8
            permits = limiter.limit("permits", "concurrency 1 ttl 1m")
            async with permits.hold("k") as decision:
                assert decision
                async with permits.hold("k") as second:
                    assert not second
            permit = await permits.hold("k", timeout=1.0)
            assert permit.decision
            permit.release()
            with await permits.hold("k") as decision:
                assert decision
            assert limiter.status().state == "up"
        assert limiter.status().state == "closed"
        with pytest.raises(sluicegate.ClosedError):
            await limit.try_acquire("k")
        await limiter.close()

    run(main())


def test_a_hundred_at_once_never_pass_the_limit(run: Run, store: str, url: str, prefix: str) -> None:
    async def main() -> None:
        limit = Limiter(url, prefix=prefix, timeout=5.0).limit("many", "fixed-window 100/h")
        got: list[Decision] = await asyncio.gather(*[limit.try_acquire("k") for _ in range(300)])
        assert sum(map(bool, got)) == 100
        assert {decision.source for decision in got} <= {store, "deny-cache"}

    run(main())


def test_a_call_is_a_coroutine() -> None:
    async def main() -> None:
        limit = Limiter().limit("call", "10/h")
        call = limit.try_acquire("k")
        assert inspect.isawaitable(call)
        assert isinstance(call, collections.abc.Coroutine)
        assert asyncio.iscoroutine(call)
        assert await call
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await call
        assert await asyncio.create_task(limit.acquire("k"))
        assert await asyncio.wait_for(limit.peek("k"), PATIENCE)
        assert await asyncio.ensure_future(limit.reserve("k"))
        assert "Limit.peek" in repr(asyncio.create_task(limit.peek("k")))
        permits = Limiter().limit("call", "concurrency 1 ttl 1m")
        permit = await asyncio.create_task(permits.hold("k"))
        assert permit.decision

    asyncio.run(main())


def test_a_call_starts_when_it_is_awaited() -> None:
    limit = Limiter().limit("lazy", "10/h")
    call = limit.try_acquire("k", 10)

    async def main() -> None:
        assert (await limit.peek("k")).remaining == 10
        assert (await call).remaining == 0

    asyncio.run(main())


def test_an_answer_that_is_there_needs_no_turn_of_the_loop() -> None:
    async def main() -> None:
        limiter = Limiter()
        limit = limiter.limit("now", "10/h")
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        for _ in range(20):
            await limit.try_acquire("k")
        assert await limit.acquire("other")
        assert await limiter.try_acquire_all([(limit, "a", 1), (limit, "b", 1)])
        assert turns == []

    asyncio.run(main())


def test_a_call_that_nobody_awaits_warns() -> None:
    limit = Limiter().limit("lazy", "10/h")
    with pytest.warns(RuntimeWarning, match="call of try_acquire was never awaited"):
        limit.try_acquire("k")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limit.try_acquire("k").close()
        Limiter().close()


def test_without_a_loop() -> None:
    clock = ManualClock()
    call = waiting_limit(clock).acquire("k")
    with pytest.raises(RuntimeError, match="no running event loop"):
        call.send(None)


def test_bad_arguments() -> None:
    async def main() -> None:
        limit = Limiter().limit("bad", "10/h")
        with pytest.raises(ArgumentError, match="key must not be empty"):
            await limit.try_acquire("")
        for wrong in (-1, 2**60):
            with pytest.raises(ArgumentError, match="cost must be a whole number"):
                await limit.acquire("k", wrong)
        with pytest.raises(TypeError, match="key must be str or bytes"):
            await limit.peek(5)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="timeout must be"):
            await limit.acquire("k", timeout=-1)
        with pytest.raises(sluicegate.UnsupportedError):
            async with limit.hold("k"):
                pass

    asyncio.run(main())


def test_a_turn_comes(run: Run) -> None:
    clock = ManualClock()
    limit = waiting_limit(clock)

    async def main() -> None:
        tasks = [asyncio.create_task(limit.acquire("k")) for _ in range(100)]

        async def all_wait() -> bool:
            return (await limit.peek("k")).retry_after == 60.0 * 101

        await until(all_wait)
        clock.advance(60.0 * 50)
        await asyncio.wait_for(asyncio.gather(*tasks[:50]), PATIENCE)
        assert not any(task.done() for task in tasks[50:])
        clock.advance(60.0 * 50)
        assert all(await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE))

    run(main())


def test_a_cancelled_task_gives_its_turn_back(run: Run) -> None:
    clock = ManualClock()
    limit = waiting_limit(clock)

    async def waits(seconds: float) -> bool:
        return (await limit.peek("k")).retry_after == seconds

    async def main() -> None:
        first, second, third = (asyncio.create_task(limit.acquire("k")) for _ in range(3))
        await until(lambda: waits(240.0))
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        await until(lambda: waits(180.0))
        second.cancel()
        await until(lambda: waits(120.0))
        clock.advance(60)
        assert await asyncio.wait_for(first, PATIENCE)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(limit.acquire("k"), 0.02)
        await until(lambda: waits(60.0))

    run(main())


def test_a_cancelled_hold_leaves_no_permit_behind(run: Run) -> None:
    async def main() -> None:
        limit = Limiter().limit("permits", "concurrency 1 ttl 1h")
        async with limit.hold("k") as decision:
            assert decision
            waiting = asyncio.create_task(limit.hold("k", timeout=None))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.sleep(0.2)
        assert (await limit.peek("k")).remaining == 1

    run(main())


def test_a_cancelled_call_that_has_its_answer(redis_url: str, prefix: str, run: Run) -> None:
    async def main() -> None:
        limit = Limiter(redis_url, prefix=prefix, timeout=5.0).limit("n", "1000/h")
        for turn in range(100):
            tasks = [asyncio.create_task(limit.try_acquire("k")) for _ in range(5)]
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert (await limit.peek("k")).remaining >= 500

    run(main())


def test_several_loops_in_several_threads(store: str, url: str, prefix: str) -> None:
    limiter = Limiter(url, prefix=prefix, timeout=5.0)
    limit = limiter.limit("loops", "fixed-window 100/h")
    got: list[Decision] = []

    async def work() -> None:
        for _ in range(5):
            got.extend(await asyncio.gather(*[limit.try_acquire("k") for _ in range(10)]))

    def loops() -> None:
        for _ in range(3):
            asyncio.run(work())

    threads = [threading.Thread(target=loops, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert len(got) == 600
    assert sum(map(bool, got)) == 100


def descriptors() -> int:
    listing = next(path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.exists())
    return len(os.listdir(listing))


def leave_loop_with_calls_in_flight(limit: Limit, loop: asyncio.AbstractEventLoop) -> None:
    async def start() -> list[asyncio.Task[Decision]]:
        tasks = [asyncio.create_task(limit.acquire(key)) for key in KEYS]
        await asyncio.sleep(0.001)
        return tasks

    for task in loop.run_until_complete(start()):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_loops_closed_with_calls_in_flight_leave_nothing_behind(kind: str) -> None:
    limit = waiting_limit(ManualClock())
    new = asyncio.new_event_loop if kind == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    leave_loop_with_calls_in_flight(limit, new())
    gc.collect()
    before = descriptors()
    loops = []
    for _ in range(30):
        loop = new()
        loops.append(weakref.ref(loop))
        leave_loop_with_calls_in_flight(limit, loop)
        del loop
        asyncio.run(until_back(limit))
    gc.collect()
    assert descriptors() <= before
    assert [loop() for loop in loops if loop() is not None] == []


async def until_back(limit: Limit) -> None:
    """Returns when the turns of the calls that were lost have been given back."""

    async def back() -> bool:
        return {(await limit.peek(key)).retry_after for key in KEYS} == {60.0}

    await until(back)


def test_a_loop_that_is_dropped_but_not_closed() -> None:
    limit = waiting_limit(ManualClock())

    def leave() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.new_event_loop()
        task = loop.create_task(limit.acquire("k"))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
        return weakref.ref(loop)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        loop = leave()
        gc.collect()
        gc.collect()
    assert loop() is None
    asyncio.run(until_back(limit))
