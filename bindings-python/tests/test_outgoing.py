"""Outgoing calls wait for their turn, and heed what a provider says."""

from __future__ import annotations

import asyncio
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
import requests

from sluicegate import Limiter, ManualClock, RateLimited, aio
from sluicegate._outgoing import Pauses, retry_after
from sluicegate.httpx import AsyncRateLimitTransport, RateLimitTransport
from sluicegate.requests import RateLimitAdapter


class Provider(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[float] = []
        self.refuses: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.asked.append(time.monotonic())
        refuses, self.server.refuses = self.server.refuses, None
        self.send_response(429 if refuses else 200)
        if refuses:
            self.send_header("Retry-After", refuses)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join(timeout=30)


Get = Callable[[str], int]
# A client's connections belong to one event loop.
LOOP = asyncio.new_event_loop()


@pytest.fixture(autouse=True, scope="module")
def _closed_loop() -> Iterator[None]:
    yield
    LOOP.close()


def by_httpx(spec: str, **options: Any) -> Get:
    transport = RateLimitTransport(Limiter().limit("provider", spec), **options)
    client = httpx.Client(transport=transport, trust_env=False)
    return lambda url: client.get(url).status_code


def by_async_httpx(spec: str, **options: Any) -> Get:
    transport = AsyncRateLimitTransport(aio.Limiter().limit("provider", spec), **options)
    client = httpx.AsyncClient(transport=transport, trust_env=False)

    async def get(url: str) -> int:
        return (await client.get(url)).status_code

    return lambda url: LOOP.run_until_complete(get(url))


def by_requests(spec: str, **options: Any) -> Get:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", RateLimitAdapter(Limiter().limit("provider", spec), **options))
    return lambda url: session.get(url).status_code


WAYS = pytest.mark.parametrize("way", [by_httpx, by_async_httpx, by_requests])


@WAYS
def test_calls_are_paced(way: Callable[..., Get], provider: Provider) -> None:
    get = way("leaky-bucket 5/s queue 10", timeout=30.0)
    started = time.monotonic()
    assert [get(provider.url) for _ in range(4)] == [200] * 4
    # The turns are 0.2 s apart, and none is early.
    assert provider.asked[-1] - started >= 0.6


@WAYS
def test_a_turn_that_is_too_late_sends_nothing(way: Callable[..., Get], provider: Provider) -> None:
    get = way("1/h", timeout=1.0)
    assert get(provider.url) == 200
    with pytest.raises(RateLimited) as caught:
        get(provider.url)
    assert caught.value.decision.retry_after is not None
    assert len(provider.asked) == 1
    # The key is the host, unless said.
    assert get(provider.url.replace("127.0.0.1", "localhost")) == 200


@WAYS
def test_keys_and_costs_by_request(way: Callable[..., Get], provider: Provider) -> None:
    get = way("3/h", key=lambda request: "all", cost=lambda request: 2, timeout=0.0)
    assert get(provider.url) == 200
    with pytest.raises(RateLimited):
        get(provider.url.replace("127.0.0.1", "localhost"))


@WAYS
def test_a_permit_is_given_back(way: Callable[..., Get], provider: Provider) -> None:
    get = way("concurrency 1 ttl 30s", timeout=0.0)
    assert [get(provider.url) for _ in range(3)] == [200] * 3


@WAYS
def test_a_providers_retry_after_is_heeded(way: Callable[..., Get], provider: Provider) -> None:
    get = way("1000/s", timeout=30.0, heed_retry_after=True)
    provider.refuses = "1"
    assert [get(provider.url), get(provider.url)] == [429, 200]
    assert provider.asked[1] - provider.asked[0] >= 0.9
    provider.refuses = "3600"
    assert get(provider.url) == 429
    with pytest.raises(RateLimited) as caught:
        get(provider.url)
    decision = caught.value.decision
    assert decision.retry_after is not None
    assert 3000 < decision.retry_after <= 3600
    assert (decision.allowed, decision.source) == (False, "deny-cache")
    assert len(provider.asked) == 3


@WAYS
def test_a_providers_retry_after_is_not_heeded_unless_asked(
    way: Callable[..., Get], provider: Provider
) -> None:
    get = way("1000/s", timeout=0.0)
    provider.refuses = "3600"
    assert [get(provider.url), get(provider.url)] == [429, 200]


def test_what_a_retry_after_means() -> None:
    later = datetime.now(timezone.utc) + timedelta(seconds=1000)
    assert 990 < (retry_after(format_datetime(later, usegmt=True)) or 0) <= 1000
    assert retry_after(format_datetime(later - timedelta(days=1), usegmt=True)) == 0.0
    assert retry_after("120") == retry_after(" 120 ") == 120.0
    assert retry_after("9" * 400) == retry_after("99999999999") == 366 * 86_400
    for nonsense in (None, "", "soon", "-1", "1.5", "\N{SUPERSCRIPT TWO}", "Fri, 99 Foo 2026 00:00:00 GMT"):
        assert retry_after(nonsense) is None


def test_pauses_are_bounded() -> None:
    pauses = Pauses()
    for number in range(10_050):
        pauses.heard(f"host-{number}", 429, {"Retry-After": str(1000 + number)})
    assert len(pauses._until) == 10_000
    # The soonest to end were dropped.
    assert pauses.left("host-0", None) == 0.0
    assert pauses.left("host-10049", None) > 0.0
    pauses.heard("host", 200, {"Retry-After": "1000"})
    assert pauses.left("host", None) == 0.0


def test_the_wrong_kind_of_limit_is_a_type_error() -> None:
    limit, awaitable = Limiter(clock=ManualClock()).limit("a", "1/s"), aio.Limiter().limit("a", "1/s")
    wrong: Any
    for kind, wrong in (
        (RateLimitTransport, awaitable),
        (RateLimitAdapter, awaitable),
        (AsyncRateLimitTransport, limit),
    ):
        with pytest.raises(TypeError, match="limit must be a"):
            kind(wrong)
