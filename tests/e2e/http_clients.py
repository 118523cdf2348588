"""A real HTTP client for the tests of servers: several addresses, several requests at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis_servers import LOOPBACK, die_with_parent

START_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection, from an address of the loopback network."""

    def __init__(self, port: int, address: str = LOOPBACK) -> None:
        self._link = http.client.HTTPConnection(LOOPBACK, port, timeout=30, source_address=(address, 0))

    def get(self, path: str = "/", headers: Mapping[str, str] | None = None) -> Answer:
        started = time.monotonic()
        self._link.request("GET", path, headers=dict(headers or {}))
        response = self._link.getresponse()
        body = response.read().decode()
        # Lower case, and equal names joined, as field names go.
        fields: dict[str, str] = {}
        for name, value in response.getheaders():
            known = fields.get(name.lower())
            fields[name.lower()] = value if known is None else f"{known}, {value}"
        return Answer(response.status, fields, body, time.monotonic() - started)

    def close(self) -> None:
        self._link.close()


def get(
    port: int, path: str = "/", headers: Mapping[str, str] | None = None, address: str = LOOPBACK
) -> Answer:
    """One request on a connection of its own."""
    with contextlib.closing(Client(port, address)) as client:
        return client.get(path, headers)


def get_at_once(ports: Sequence[int], each: int, address: str = LOOPBACK) -> list[Answer]:
    """`each` requests to each port, from as many clients at once as there are ports, twice."""

    def some(port: int) -> list[Answer]:
        with contextlib.closing(Client(port, address)) as client:
            return [client.get() for _ in range(each // 2)]

    with ThreadPoolExecutor(2 * len(ports)) as pool:
        return [answer for answers in pool.map(some, [*ports, *ports]) for answer in answers]


class Load:
    """Requests one after the other, by several clients from many addresses, until it is stopped."""

    def __init__(self, port: int, clients: int = 3) -> None:
        self.answers: list[Answer] = []
        self.errors: list[Exception] = []
        self._port = port
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def _run(self, number: int) -> None:
        try:
            for turn in range(100_000):
                # Each address makes a few requests: most calls are on keys that nobody has refused.
                address = f"127.{number + 1}.{turn // 200 + 1}.{turn % 200 + 1}"
                with contextlib.closing(Client(self._port, address)) as client:
                    for _ in range(5):
                        if self._stopped.is_set():
                            return
                        self.answers.append(client.get())
        except Exception as error:
            self.errors.append(error)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()


def eventually(what: str, holds: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


@contextlib.contextmanager
def serving(
    command: Sequence[str | Path], port: int, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from when it takes connections until the end of the block."""
    # A file takes what a server prints, however much it is.
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )

        def takes_connections() -> bool:
            if process.poll() is not None:
                printed.seek(0)
                raise RuntimeError(f"the server ended:\n{printed.read()}")
            with contextlib.suppress(OSError):
                get(port, "/health")
                return True
            return False

        with process:
            try:
                eventually("the server takes connections", takes_connections, START_SECONDS)
                yield process
            finally:
                process.kill()
