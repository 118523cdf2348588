"""The middleware and the decorator for Django, called as Django calls them."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import Iterator
from typing import Any

import django
import pytest
from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.test.utils import override_settings

from sluicegate import ClientAddress, Decision, ManualClock
from sluicegate.django import RateLimitMiddleware, aio_limiter, limiter, rate_limit

if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"])
    django.setup()

REQUESTS = RequestFactory()


def configured(**entries: Any) -> override_settings:
    options = {"clock": ManualClock(), **entries.pop("OPTIONS", {})}
    return override_settings(SLUICEGATE={"OPTIONS": options, **entries})


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


async def aio_view(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return HttpResponse("hello")


def get(handler: Any, path: str = "/", peer: str = "192.0.2.1", **meta: str) -> HttpResponse:
    request = REQUESTS.get(path, REMOTE_ADDR=peer, **meta)  # type: ignore[arg-type]
    response = handler(request)
    answered: HttpResponse = asyncio.run(response) if iscoroutinefunction(handler) else response
    answered.close()
    return answered


@pytest.fixture(params=[view, aio_view], ids=["sync", "async"])
def inner(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    with override_settings(SLUICEGATE={}):
        yield


def test_the_middleware(inner: Any) -> None:
    with configured(LIMIT="2/m", NAME="web", LEGACY_HEADERS=True):
        handler = RateLimitMiddleware(inner)
        assert iscoroutinefunction(handler) == iscoroutinefunction(inner)
        answers = [get(handler, HTTP_X_FORWARDED_FOR=f"203.0.113.{number}") for number in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[0].headers["RateLimit"] == '"web";r=1;t=30'
        assert answers[0].headers["X-RateLimit-Remaining"] == "1"
        assert answers[2].headers["Content-Type"] == "application/problem+json"
        assert answers[2].headers["Retry-After"] == "30"
        assert json.loads(answers[2].content)["violated-policies"] == ["web"]
        assert get(handler, peer="192.0.2.2").status_code == 200


def plan(request: HttpRequest) -> str | None:
    return {"/free": "1/m", "/paid": "3/m"}.get(request.path)


async def aio_plan(request: HttpRequest) -> str | None:
    return plan(request)


def refusal(request: HttpRequest, decision: Decision) -> HttpResponse:
    return HttpResponse(f"wait {decision.retry_after}", status=503)


@pytest.mark.parametrize("spec", [plan, aio_plan, "shop_limits.plan"], ids=["plain", "async", "path"])
def test_choices_by_request(spec: Any, inner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if spec is aio_plan and inner is view:
        # Without an event loop nothing can be awaited.
        spec = plan
    if isinstance(spec, str):
        module = types.ModuleType("shop_limits")
        module.plan = plan  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "shop_limits", module)
    with configured(
        LIMIT=spec,
        KEY=ClientAddress(trusted=["192.0.2.1"]),
        COST=lambda request: 2 if request.GET.get("twice") else 1,
        SKIP=lambda request: request.path == "/health",
        REFUSAL=refusal,
    ):
        handler = RateLimitMiddleware(inner)
        assert [get(handler, "/free").status_code for _ in range(2)] == [200, 503]
        assert get(handler, "/free").content == b"wait 60.0"
        assert get(handler, "/free", HTTP_X_FORWARDED_FOR="203.0.113.1").status_code == 200
        assert "RateLimit" not in get(handler, "/other").headers
        assert [get(handler, "/health").status_code for _ in range(3)] == [200] * 3
        twice = [get(handler, "/paid?twice=1", peer="192.0.2.9").status_code for _ in range(2)]
        assert twice == [200, 503]


def test_the_decorator_beside_the_middleware(inner: Any) -> None:
    with configured(LIMIT="10/m", NAME="web"):
        decorated = rate_limit("login", "1/m", key=lambda request: "everybody")(inner)
        handler = RateLimitMiddleware(decorated)
        answers = [get(handler, peer=f"192.0.2.{number}") for number in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
        assert answers[1].headers["RateLimit"] == '"login";r=0;t=60, "web";r=9;t=6'
        assert decorated.__name__ == inner.__name__


def test_a_permit_is_held_until_the_response_is_closed() -> None:
    with configured(LIMIT="concurrency 1 ttl 30s"):
        handler = RateLimitMiddleware(view)
        first = handler(REQUESTS.get("/"))
        assert handler(REQUESTS.get("/")).status_code == 429
        first.close()
        assert handler(REQUESTS.get("/")).status_code == 200

        @rate_limit("jobs", "concurrency 1 ttl 30s")
        def broken(request: HttpRequest) -> HttpResponse:
            raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                broken(REQUESTS.get("/"))


def test_the_limiters_of_the_settings() -> None:
    with configured(OPTIONS={"prefix": "shop"}):
        assert 'prefix "shop"' in repr(limiter())
        assert limiter().status().state == aio_limiter().status().state == "up"
        assert limiter() is limiter()


def test_wrong_settings_are_refused() -> None:
    with (
        configured(LIMITS="1/s"),
        pytest.raises(ImproperlyConfigured, match="entry 'LIMITS'; allowed are URL"),
    ):
        RateLimitMiddleware(view)
    with configured(), pytest.raises(ImproperlyConfigured, match="must have an entry LIMIT"):
        RateLimitMiddleware(view)
