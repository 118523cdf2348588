"""Calls that wait: on their own thread, without the GIL, and open to Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sluicegate import Decision, Limiter, ManualClock

PATIENCE = 20.0


@contextmanager
def in_threads(*calls: Callable[[], object]) -> Iterator[list[threading.Thread]]:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_others_run_while_a_call_waits() -> None:
    clock = ManualClock()
    limit = Limiter(clock=clock).limit("wait", "1/m")
    assert limit.try_acquire("k")
    got: list[Decision] = []
    with in_threads(lambda: got.append(limit.acquire("k", timeout=100))) as [waiting]:
        while limit.peek("k").retry_after != 120.0:  # until the thread has its turn, and we the GIL
            time.sleep(0.001)
        assert waiting.is_alive()
        clock.advance(59.999999)
        waiting.join(0.05)
        assert waiting.is_alive()
        clock.advance(0.000001)
    assert [bool(decision) for decision in got] == [True]
    assert got[0].wait == 0.0


def test_who_would_wait_too_long_is_told_at_once() -> None:
    limit = Limiter(clock=ManualClock()).limit("wait", "1/m")
    assert limit.acquire("k", timeout=0)
    refused = limit.acquire("k", timeout=59.999999)
    assert not refused
    assert refused.retry_after == 60.0


def test_a_wait_in_real_time(store: str, url: str, prefix: str) -> None:
    limit = Limiter(url, prefix=prefix, timeout=5.0).limit("wait", "20/s burst 1")
    started = time.monotonic()
    decisions = [limit.acquire("k", timeout=10.0) for _ in range(5)]
    assert all(decisions)
    assert {decision.source for decision in decisions} == {store}
    assert time.monotonic() - started > 0.15


def test_a_permit_that_is_waited_for() -> None:
    limit = Limiter().limit("wait", "concurrency 1 ttl 1m")
    permit = limit.hold("k")
    got: list[bool] = []

    def wait() -> None:
        with limit.hold("k", timeout=PATIENCE) as decision:
            got.append(decision.allowed)

    with in_threads(wait):
        time.sleep(0.05)
        assert not got
        permit.release()
    assert got == [True]


def test_ctrl_c_ends_a_wait_and_gives_the_turn_back() -> None:
    clock = ManualClock()
    limit = Limiter(clock=clock).limit("wait", "1/m")
    assert limit.try_acquire("k")

    def interrupt() -> None:
        while limit.peek("k").retry_after != 120.0:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    started = time.monotonic()
    with in_threads(interrupt), pytest.raises(KeyboardInterrupt):
        limit.acquire("k")
    assert time.monotonic() - started < PATIENCE
    deadline = time.monotonic() + PATIENCE
    while limit.peek("k").retry_after != 60.0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    clock.advance(60)
    assert limit.try_acquire("k")


def test_a_signal_whose_handler_returns_ends_nothing() -> None:
    clock = ManualClock()
    limit = Limiter(clock=clock).limit("wait", "1/m")
    assert limit.try_acquire("k")
    heard: list[int] = []

    def handler(number: int, _frame: object) -> None:
        heard.append(number)
        clock.advance(60)

    def interrupt() -> None:
        while limit.peek("k").retry_after != 120.0:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with in_threads(interrupt):
            assert limit.acquire("k")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_signals_lose_no_answer(redis_url: str, prefix: str) -> None:
    limit = Limiter(redis_url, prefix=prefix, timeout=10.0, on_outage="raise").limit("signals", "1000000/h")
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: heard.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        sources = {limit.try_acquire(f"k{number}").source for number in range(2000)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sources == {"redis"}
    assert heard


def test_ctrl_c_is_heard_while_the_store_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        limiter = Limiter(f"redis://127.0.0.1:{server.getsockname()[1]}", timeout=60.0)
        limit = limiter.limit("silent", "1/m")
        alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        started = time.monotonic()
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            limit.try_acquire("k")
        assert time.monotonic() - started < PATIENCE


def test_many_threads_never_pass_the_limit(store: str, url: str, prefix: str) -> None:
    limit = Limiter(url, prefix=prefix, timeout=5.0).limit("threads", "fixed-window 100/h")
    got: list[Decision] = []
    together = threading.Barrier(8)

    def work() -> None:
        together.wait(PATIENCE)
        got.extend(limit.try_acquire("k") for _ in range(50))

    with in_threads(*[work] * 8):
        pass
    assert len(got) == 400
    assert sum(map(bool, got)) == 100
    assert {decision.source for decision in got} <= {store, "deny-cache"}
