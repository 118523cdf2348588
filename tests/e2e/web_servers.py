"""Web servers for tests, each a process of its own on a free port, and the HTTP client that asks them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from redis_cluster import until
from redis_servers import LOOPBACK, RedisServer, die_with_parent

START_SECONDS = 60.0
ASK_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """A response; the names of the header fields are in lower case."""

    status: int
    headers: dict[str, str]
    body: str
    seconds: float


class Client:
    """A connection that stays open; `source` is the address that it comes from."""

    def __init__(self, port: int, source: str = LOOPBACK) -> None:
        self._connection = http.client.HTTPConnection(
            LOOPBACK, port, timeout=ASK_SECONDS, source_address=(source, 0)
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def get(self, path: str = "/", headers: Mapping[str, str] | None = None) -> Answer:
        started = time.monotonic()
        self._connection.request("GET", path, headers=dict(headers or {}))
        response = self._connection.getresponse()
        body = response.read().decode()
        fields: dict[str, str] = {}
        for name, value in response.getheaders():
            known = fields.get(name.lower())
            fields[name.lower()] = value if known is None else f"{known}, {value}"
        return Answer(response.status, fields, body, time.monotonic() - started)


class Load(threading.Thread):
    """Requests to one server, one after the other, until it is stopped."""

    def __init__(
        self, name: str, port: int, path: str = "/", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name=name)
        self._port, self._path, self._headers = port, path, headers
        self._stopped = threading.Event()
        self.answers: list[Answer] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with Client(self._port) as client:
                while not self._stopped.wait(0.005) and len(self.answers) < 100_000:
                    self.answers.append(client.get(self._path, self._headers))
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=60)
        assert not self.is_alive()


class WebServer:
    """A server that is started on entry and listens then; gone on exit with all its workers."""

    def __init__(self, name: str, command: Sequence[str | Path], directory: Path, port: int) -> None:
        self.name = name
        self._command = [str(word) for word in command]
        self._directory, self.port = directory, port
        self._log = directory / f"server-{port}.log"

    def __enter__(self) -> WebServer:
        self._launch()
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def _launch(self) -> None:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @classmethod
    @contextlib.contextmanager
    def all_at_once(cls, servers: Sequence[WebServer]) -> Iterator[None]:
        """Several that start beside each other."""
        with contextlib.ExitStack() as stack:
            for server in servers:
                server._launch()
                stack.push(server.__exit__)
            for server in servers:
                server._wait()
            yield

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        if kind is not None:
            print(self.log()[-4000:])

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def get(
        self, path: str = "/", headers: Mapping[str, str] | None = None, source: str = LOOPBACK
    ) -> Answer:
        """One request on a connection of its own."""
        with Client(self.port, source) as client:
            return client.get(path, headers)

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            # No request: that would count.
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1.0):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{' '.join(self._command)} did not start:\n{self.log()[-4000:]}")

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=15)
        # Workers outlive a master that was killed.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=15)


def all_say(servers: Sequence[WebServer], state: str) -> bool:
    """Whether the `/status` of every server has this state."""
    return all(json.loads(server.get("/status").body)["state"] == state for server in servers)


def through_an_outage(
    servers: Sequence[WebServer], redis: RedisServer, loads: Sequence[Load]
) -> tuple[list[Answer], list[Answer]]:
    """Kills Redis under the load and starts it again; returns the answers, and those of `/health`."""
    healthy: list[Answer] = []

    def reached(state: str) -> bool:
        healthy.extend(server.get("/health") for server in servers)
        return all_say(servers, state)

    try:
        for load in loads:
            load.start()
        # Until each process has seen the key, and knows of the other by a heartbeat.
        time.sleep(2.5)
        redis.kill()
        until("status() is out", lambda: reached("out"))
        counted = [len(load.answers) for load in loads]
        until(
            "requests are answered without Redis",
            lambda: all(len(load.answers) > before + 50 for load, before in zip(loads, counted, strict=True)),
        )
        redis.restart()
        until("status() is up", lambda: reached("up"))
    finally:
        for load in loads:
            load.stop()
    assert [load.error for load in loads] == [None] * len(loads)
    return [answer for load in loads for answer in load.answers], healthy
