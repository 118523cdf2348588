"""examples/c-server: an epoll loop that limits by client address, driven over its limit by HTTP clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import artefacts
import pytest
from redis_servers import RedisServer, die_with_parent

BUDGET_S = 0.1
# How late a machine that is busy with other work may run us. Bounds are upper bounds only.
SCHEDULING_S = 0.5
HOME = "127.0.0.1"


@pytest.fixture(scope="module")
def program(c_prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server, made by its own Makefile outside the repository."""
    source = tmp_path_factory.mktemp("c-server") / "c-server"
    ignored = shutil.ignore_patterns("server")
    shutil.copytree(artefacts.ROOT / "examples" / "c-server", source, ignore=ignored)
    env = {**os.environ, **artefacts.c_env(c_prefix), "CFLAGS": "-O2 -Wall -Wextra -Wpedantic -Werror"}
    artefacts.run(["make", "server"], cwd=source, env=env)
    return source / "server"


@contextlib.contextmanager
def started(
    line: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None, ends_with: Sequence[int] = (0,)
) -> Iterator[tuple[str, int]]:
    """A running server's host and port; it must end well when it is told to."""
    process = subprocess.Popen(
        [str(word) for word in line],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"], words
        yield words[2], int(words[4])
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) in ends_with
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def server(program: Path, url: str, limit: str, *options: str) -> Iterator[int]:
    line: list[str | Path] = [program, "-p", "0", "-u", url, "-l", limit, *options]
    with started(line, program.parent) as (host, port):
        assert host == HOME
        yield port


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    @property
    def source(self) -> str:
        """Where it was decided."""
        return self.headers["X-Decided-By"]


class Client:
    """One connection that is kept open, from one address."""

    def __init__(self, port: int, address: str = HOME) -> None:
        self._http = http.client.HTTPConnection(HOME, port, timeout=30, source_address=(address, 0))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str = "/", forwarded: str | None = None) -> Answer:
        self._http.request("GET", path, headers={} if forwarded is None else {"X-Forwarded-For": forwarded})
        response = self._http.getresponse()
        body = response.read().decode()
        kind = "application/problem+json" if response.status == 429 else "text/plain"
        assert response.getheader("Content-Type") == kind
        return Answer(response.status, dict(response.getheaders()), body)


def get(port: int, address: str = HOME, path: str = "/", forwarded: str | None = None) -> Answer:
    with Client(port, address) as client:
        return client.get(path, forwarded)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs `work` at once in many threads, and raises what any of them raised."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_exactly_the_limit_for_each_address(program: Path, redis: RedisServer, store: str) -> None:
    url = redis.url if store == "redis" else "memory://"
    statuses: Counter[tuple[str, int]] = Counter()
    lock = threading.Lock()

    with server(program, url, "fixed-window 50/h", "-t", "5000") as port:

        def drive(number: int) -> None:
            address = HOME if number % 2 == 0 else "127.0.0.2"
            with Client(port, address) as client:
                for _ in range(40):
                    answer = client.get(f"/{number}")
                    # Not by an outage: then the numbers would mean nothing.
                    assert answer.source in (store, *(["deny-cache"] if answer.status == 429 else []))
                    assert answer.headers["RateLimit-Policy"] == '"requests";q=50;w=3600'
                    if answer.status == 429:
                        wait = int(answer.headers["Retry-After"])
                        assert 3000 <= wait <= 3600
                        assert answer.headers["RateLimit"] == f'"requests";r=0;t={wait}'
                        problem = json.loads(answer.body)
                        assert (problem["status"], problem["violated-policies"]) == (429, ["requests"])
                    else:
                        assert address in answer.body and "Retry-After" not in answer.headers
                    with lock:
                        statuses[address, answer.status] += 1

        in_threads(8, drive)
        assert get(port, path="/status").body.startswith("up ")
    assert statuses == {(a, s): n for a in (HOME, "127.0.0.2") for s, n in ((200, 50), (429, 110))}


def test_nobody_but_a_trusted_proxy_says_who_the_client_is(program: Path) -> None:
    proxy, count = "127.0.0.9", 5
    with server(program, "memory://", f"fixed-window {count}/h", "-x", proxy, "-x", "10.0.0.0/8") as port:

        def is_one_client(address: str, forwarded: str) -> None:
            statuses = Counter(get(port, address, "/", forwarded.format(n)).status for n in range(1, 9))
            assert statuses == {200: count, 429: 8 - count}

        # Whatever a client makes up: it is the same client.
        is_one_client("127.0.0.2", "203.0.113.{}")
        # Through the proxy it is whom the proxy has seen, or the proxy before it.
        is_one_client(proxy, "203.0.113.{}, 198.51.100.1")
        is_one_client(proxy, "203.0.113.{}, 198.51.100.2, 10.1.1.1")
        # A /64 of IPv6 addresses is one client.
        is_one_client(proxy, "2001:db8:0:1::{}")
        assert "2001:db8:0:2::/64" in get(port, proxy, "/", "2001:db8:0:2::1").body


def test_several_servers_share_the_limit(program: Path, redis: RedisServer) -> None:
    with (
        server(program, redis.url, "fixed-window 30/h", "-t", "5000") as first,
        server(program, redis.url, "fixed-window 30/h", "-t", "5000") as second,
        Client(first) as one,
        Client(second) as two,
    ):
        statuses = Counter(client.get().status for _ in range(50) for client in (one, two))
    assert statuses == {200: 30, 429: 70}


@dataclass
class Load:
    """What clients saw that ask without pause until they are told to stop."""

    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    statuses: Counter[int] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    failed: list[str] = field(default_factory=list)

    def ask(self, port: int, address: str) -> None:
        try:
            with Client(port, address) as client:
                while not self.stop.is_set():
                    begun = time.monotonic()
                    answer = client.get()
                    took = time.monotonic() - begun
                    with self.lock:
                        self.statuses[answer.status] += 1
                        self.sources[answer.source] += 1
                        self.slowest_s = max(self.slowest_s, took)
        except Exception as error:
            self.failed.append(repr(error))

    @contextlib.contextmanager
    def running(self, port: int, clients: int) -> Iterator[Load]:
        addresses = [f"127.0.0.{2 + number}" for number in range(clients)]
        threads = [threading.Thread(target=self.ask, args=(port, address)) for address in addresses]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(timeout=60)


def until(what: str, holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def test_redis_killed_under_load(program: Path, redis: RedisServer) -> None:
    rate, burst, clients = 50, 50, 4
    begun = time.monotonic()
    with (
        server(program, redis.url, f"{rate}/s burst {burst}") as port,
        Load().running(port, clients) as load,
    ):
        until("Redis decides", lambda: load.sources["redis"] > 100)
        redis.kill()
        until("the status says out", lambda: get(port, path="/status").body.startswith("out "))
        before = load.sources["outage"]
        until("the server goes on by itself", lambda: load.sources["outage"] > before + 200)
        redis.restart()
        until("the status says up", lambda: get(port, path="/status").body.startswith("up "))
        before = load.sources["redis"]
        until("Redis decides again", lambda: load.sources["redis"] > before + 100)
    elapsed = time.monotonic() - begun
    print(load)
    assert load.failed == []
    assert set(load.statuses) == {200, 429}
    assert load.slowest_s <= BUDGET_S + SCHEDULING_S
    # The new Redis knows nothing of before but what was owed to it: another burst, and no more.
    assert load.statuses[200] <= clients * (rate * elapsed + 2 * burst)
    assert load.statuses[200] >= clients * burst


def test_frozen_redis_costs_one_budget(program: Path, redis: RedisServer) -> None:
    with server(program, redis.url, "1000000/s") as port, Client(port) as client:
        until("Redis decides", lambda: client.get().source == "redis")
        redis.stop()
        begun = time.monotonic()
        answers = [client.get() for _ in range(200)]
        took = time.monotonic() - begun
        redis.cont()
        assert {answer.status for answer in answers} == {200}
        assert {answer.source for answer in answers} == {"outage"}
        # Had each waited for its budget, this would be 20 s.
        assert took <= BUDGET_S + 2 * SCHEDULING_S
        until("Redis decides again", lambda: client.get().source == "redis")


def ask_raw(port: int, request: bytes, chunk: int | None = None) -> bytes:
    """What comes back for these bytes, sent in pieces of `chunk`, until the server hangs up."""
    with socket.create_connection((HOME, port), timeout=30) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(request), chunk or len(request)):
            link.sendall(request[start : start + (chunk or len(request))])
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while got := link.recv(65536):
                answer += got
        return answer


def test_what_clients_may_send(program: Path) -> None:
    host = b"Host: here\r\n"
    last = b"GET /x HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n"
    with server(program, "memory://", "1000000/s", "-x", HOME) as port:

        def status(request: bytes, chunk: int | None = None) -> bytes:
            return ask_raw(port, request, chunk).partition(b"\r\n")[0]

        assert status(last) == status(last, 1) == b"HTTP/1.1 200 OK"
        assert status(b"GET / HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK"
        assert (
            status(b"GET / HTTP/1.0\r\nx-forwarded-for:\r\nX-FORWARDED-FOR: \xff, ,1\r\n\r\n")
            == b"HTTP/1.1 200 OK"
        )
        # Several at once are answered one after the other.
        assert ask_raw(port, (b"GET /x HTTP/1.1\r\n" + host + b"\r\n") * 20 + last).count(b"200 OK") == 21
        for request, expected in [
            (b"POST / HTTP/1.1\r\n" + host + b"\r\n", b"405"),
            (b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"413"),
            (b"GET /" + b"x" * 300 + b" HTTP/1.1\r\n\r\n", b"400"),
            (b"GET / HTTP/2.0\r\n\r\n", b"400"),
            (b"GET\r\n\r\n", b"400"),
            (b"\r\n\r\n", b"400"),
            (b"GET /\0 HTTP/1.1\r\n\r\n", b"400"),
            (bytes(range(256)) + b"\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 8192, b"431"),
            (b"GET / HTTP/1.1\r\n" + b"X-Forwarded-For: 203.0.113.1\r\n" * 33 + b"\r\n", b"431"),
        ]:
            assert status(request).split()[1:2] == [expected], request[:60]
        assert get(port).status == 200


def test_clients_that_hang_up(program: Path, redis: RedisServer) -> None:
    """While their decision is under way: nobody else gets it, and the server goes on."""
    with server(program, redis.url, "1000000/s", "-t", "1000") as port:
        until("Redis decides", lambda: get(port).source == "redis")
        for _ in range(3):
            redis.stop()
            links = [socket.create_connection((HOME, port), timeout=30) for _ in range(50)]
            for link in links:
                link.sendall(b"GET / HTTP/1.1\r\n\r\n" * 2)
            for link in links:
                link.close()
            # Their descriptors are free again, and these get them.
            answers = [get(port, path="/status").body for _ in range(50)]
            assert all(" since " in body for body in answers)
            redis.cont()
            assert get(port).status == 200


def test_make_run(program: Path, c_prefix: Path) -> None:
    env = {**os.environ, **artefacts.c_env(c_prefix)}
    line: list[str | Path] = ["make", "--no-print-directory", "--silent", "run", "ARGS=-p 0 -l 1/h"]
    # Make gets the signal too, and says so in one of two ways.
    with started(line, program.parent, env, ends_with=(2, -signal.SIGTERM)) as (_, port):
        assert [get(port).status, get(port).status] == [200, 429]
