"""What changes is logged, and nothing else is."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time

import pytest

from sluicegate import Limiter, aio

AWAY = "redis://user:secret@127.0.0.1:1"
PATIENCE = 30.0


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage()) for record in caplog.records if record.name == "sluicegate"
    ]


def test_an_outage_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Limiter(AWAY) as limiter:
        limit = limiter.limit("a", "100000/s")
        until = time.monotonic() + PATIENCE
        while not events(caplog) and time.monotonic() < until:
            assert limit.try_acquire("k").source == "outage"
        for _ in range(100):
            limit.try_acquire("k")
            limiter.status()
    [(level, message)] = events(caplog)
    assert level == "WARNING"
    assert "away" in message
    assert "refused" in message
    assert "secret" not in message


@pytest.mark.parametrize("asking", ["status", "try_acquire_all"])
def test_any_call_logs(caplog: pytest.LogCaptureFixture, asking: str) -> None:
    limiter = Limiter(AWAY)
    limit = limiter.limit("a", "1/s")
    until = time.monotonic() + PATIENCE
    while not events(caplog) and time.monotonic() < until:
        if asking == "status":
            limiter.status()
        else:
            limiter.try_acquire_all([(limit, "k", 1)])
    assert [level for level, _ in events(caplog)] == ["WARNING"]


def test_a_full_table_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    limit = Limiter(max_keys=64).limit("a", "1/d")
    allowed = sum(bool(limit.try_acquire(str(key))) for key in range(1000))
    assert allowed < 1000
    [(level, message)] = events(caplog)
    assert level == "WARNING"
    assert "max_keys" in message


def test_memory_has_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    limiter = Limiter()
    limiter.limit("a", "1/s").try_acquire("k")
    limiter.status()
    assert events(caplog) == []


def test_a_loop_logs_without_another_call(caplog: pytest.LogCaptureFixture) -> None:
    class Wakes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.set()

    async def main() -> None:
        async with aio.Limiter(AWAY, timeout=1.0) as limiter:
            assert (await limiter.limit("a", "100000/s").try_acquire("k")).source == "outage"
            await asyncio.wait_for(logged.wait(), PATIENCE)

    logged, handler = asyncio.Event(), Wakes()
    logging.getLogger("sluicegate").addHandler(handler)
    try:
        asyncio.run(main())
    finally:
        logging.getLogger("sluicegate").removeHandler(handler)
    assert [level for level, _ in events(caplog)] == ["WARNING"]


def test_aio_logs_at_calls_and_status(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        limiter = aio.Limiter(max_keys=64)
        limit = limiter.limit("a", "1/d")
        for key in range(1000):
            await limit.try_acquire(str(key))
        limiter.status()

    asyncio.run(main())
    assert [level for level, _ in events(caplog)] == ["WARNING"]


def test_a_handler_that_fails_harms_no_call() -> None:
    class Fails(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("on purpose")

    logger, handler = logging.getLogger("sluicegate"), Fails()
    logger.addHandler(handler)
    unraisable: list[object] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda raised: unraisable.append(raised.exc_value)
    try:
        limit = Limiter(max_keys=64).limit("a", "1/d")
        for key in range(1000):
            limit.try_acquire(str(key))
    finally:
        sys.unraisablehook = hook
        logger.removeHandler(handler)
    assert [str(error) for error in unraisable] == ["on purpose"]


def test_nothing_is_printed_unless_logging_is_configured() -> None:
    program = f"""
import time, sluicegate
limit = sluicegate.Limiter({AWAY!r}).limit("a", "1/s")
for _ in range(50):
    limit.try_acquire("k")
    time.sleep(0.01)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
