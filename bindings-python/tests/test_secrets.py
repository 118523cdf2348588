"""No password in an error, a repr, a status or a log, whatever the URL looks like."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sluicegate
from sluicegate import Limiter, OutageError, aio

CASES = json.loads((Path(__file__).parents[2] / "tests" / "secrets.json").read_text())
PATIENCE = 20.0


def of_error(error: BaseException) -> str:
    return " ".join([repr(error), str(error), repr(error.args), *traceback.format_exception(error)[-1:]])


def of_limiter(limiter: Limiter | aio.Limiter) -> str:
    """All that is told when the limiter knows what went wrong."""
    until = time.monotonic() + PATIENCE
    while limiter.status().last_error is None:
        assert time.monotonic() < until
        time.sleep(0.002)
    status = limiter.status()
    parts = [repr(limiter), str(limiter), repr(status), str(status.last_error), repr(dir(limiter))]
    with pytest.raises(TypeError) as raised:
        pickle.dumps(limiter)
    return " ".join([*parts, of_error(raised.value)])


def told(url: str) -> str:
    options: dict[str, Any] = {"on_outage": "raise", "timeout": 0.5, "deny_cache": 0}
    try:
        limiter = Limiter(url, **options)
    except sluicegate.ConfigError as error:
        with pytest.raises(sluicegate.ConfigError) as raised:
            aio.Limiter(url, **options)
        return of_error(error) + of_error(raised.value)
    with limiter:
        limit = limiter.limit("secrets", "1/s")
        with pytest.raises(OutageError) as refused:
            limit.try_acquire("k")
        parts = [repr(limit), of_error(refused.value), of_limiter(limiter)]

    async def under_asyncio() -> None:
        async with aio.Limiter(url, **options) as limiter:
            with pytest.raises(OutageError) as raised:
                await limiter.limit("secrets", "1/s").try_acquire("k")
            parts.extend([of_error(raised.value), of_limiter(limiter)])

    asyncio.run(under_asyncio())
    return " ".join(parts)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_no_url_tells_its_password(case: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert case["secret"] not in told(case["url"])
    assert case["secret"] not in caplog.text


def test_a_refused_password_is_not_told(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = told(redis_url.replace("redis://", "redis://nobody:hunter2@"))
    assert "WRONGPASS" in text
    assert "hunter2" not in text + caplog.text
    assert "WRONGPASS" in caplog.text


@contextlib.contextmanager
def parrot() -> Iterator[int]:
    """The port of a server that refuses every command and says back what it was sent, as old Redis does."""

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while request := connection.recv(65536):
                words = " ".join(f"`{word}`" for word in request.decode(errors="replace").split())
                connection.sendall(f"-ERR unknown command, with args beginning with: {words}\r\n".encode())

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=[listening.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@{}",
        "redis+cluster://user:hunter2@{}",
        "redis+sentinel://user:hunter2@{}/master?sentinel_password=hunter2",
    ],
)
def test_a_server_that_tells_what_it_was_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with parrot() as port:
        text = told(url.format(f"127.0.0.1:{port}"))
    assert "can't be reached" in text
    assert "hunter2" not in text + caplog.text
