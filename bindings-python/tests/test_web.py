"""The frameworks' parts, called as their servers call them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from flask import Flask
from starlette.responses import PlainTextResponse, Response

from sluicegate import Decision, Limiter, ManualClock, aio, asgi, wsgi
from sluicegate.fastapi import RESPONSES, HTTPRateLimited, RateLimit, use_problem_details
from sluicegate.flask import HTTPRateLimited as FlaskRateLimited
from sluicegate.flask import Limits

PROBLEM = "application/problem+json"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limiter(clock: ManualClock) -> Limiter:
    return Limiter(clock=clock)


@pytest.fixture
def aio_limiter(clock: ManualClock) -> aio.Limiter:
    return aio.Limiter(clock=clock)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    response = PlainTextResponse("hello", headers={"X-RateLimit-Limit": "the app's own"})
    await response(scope, receive, send)


def ask(app: Any, *paths: str, client: str = "192.0.2.1", **headers: str) -> list[httpx.Response]:
    async def main() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, client=(client, 1234), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as session:
            return [await session.get(path, headers=headers) for path in paths]

    return asyncio.run(main())


def statuses(answers: Iterable[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


def test_asgi_refuses_and_says_so(aio_limiter: aio.Limiter) -> None:
    app = asgi.RateLimitMiddleware(hello, aio_limiter.limit("api", "2/m"), legacy_headers=True)
    answers = ask(app, *["/"] * 3)
    assert statuses(answers) == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"api";r=1;t=30'
    assert answers[0].headers.get_list("X-RateLimit-Limit") == ["the app's own"]
    assert answers[0].headers["X-RateLimit-Remaining"] == "1"
    assert answers[2].headers["Content-Type"] == PROBLEM
    assert answers[2].headers["Retry-After"] == "30"
    assert answers[2].json()["violated-policies"] == ["api"]
    assert statuses(ask(app, "/", client="192.0.2.2")) == [200]
    # Without a trusted proxy no header names the client.
    assert statuses(ask(app, "/", **{"X-Forwarded-For": "203.0.113.9"})) == [429]


def test_asgi_groups_ipv6(aio_limiter: aio.Limiter) -> None:
    app = asgi.RateLimitMiddleware(hello, aio_limiter.limit("api", "1/m"))
    answers = [
        ask(app, "/", client=client)[0] for client in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
    ]
    assert statuses(answers) == [200, 429, 200]


def test_asgi_two_limits_tell_of_both(aio_limiter: aio.Limiter) -> None:
    inner = asgi.RateLimitMiddleware(hello, aio_limiter.limit("inner", "1/m"))
    app = asgi.RateLimitMiddleware(inner, aio_limiter.limit("outer", "3/m"))
    answers = ask(app, "/", "/")
    assert statuses(answers) == [200, 429]
    assert answers[1].headers["RateLimit"] == '"inner";r=0;t=60, "outer";r=1;t=20'
    assert answers[1].headers["Retry-After"] == "60"


def test_asgi_choices_by_request(aio_limiter: aio.Limiter) -> None:
    plans = {b"free": aio_limiter.limit("free", "2/m"), b"paid": aio_limiter.limit("paid", "4/m")}

    async def plan(scope: asgi.Scope) -> aio.Limit | None:
        await asyncio.sleep(0)
        return plans.get(dict(scope["headers"]).get(b"x-plan", b""))

    async def user(scope: asgi.Scope) -> str:
        return str(scope["path"])

    app = asgi.RateLimitMiddleware(
        hello,
        plan,
        key=user,
        cost=lambda scope: 2,
        skip=lambda scope: scope["path"] == "/health",
        refusal=lambda scope, decision: Response(f"wait {decision.retry_after}", 503),
    )
    assert statuses(ask(app, "/a", "/a", "/b", **{"X-Plan": "free"})) == [200, 503, 200]
    assert ask(app, "/a", **{"X-Plan": "free"})[0].text == "wait 60.0"
    assert statuses(ask(app, "/a", "/a", "/a", **{"X-Plan": "paid"})) == [200, 200, 503]
    free_of_limits = ask(app, *["/a"] * 5)
    assert statuses(free_of_limits) == [200] * 5
    healthy = ask(app, *["/health"] * 5, **{"X-Plan": "free"})
    assert statuses(healthy) == [200] * 5
    assert "RateLimit" not in healthy[0].headers


def test_asgi_holds_a_permit_while_it_serves(aio_limiter: aio.Limiter) -> None:
    async def main() -> None:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            entered.set()
            await leave.wait()
            await hello(scope, receive, send)

        app = asgi.RateLimitMiddleware(slow, aio_limiter.limit("jobs", "concurrency 1 ttl 30s"))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as session:
            first = asyncio.create_task(session.get("/"))
            await entered.wait()
            assert (await session.get("/")).status_code == 429
            leave.set()
            assert (await first).status_code == 200
            assert (await session.get("/")).status_code == 200

    asyncio.run(main())


def test_asgi_needs_a_limit_for_asyncio(limiter: Limiter) -> None:
    wrong: Any = limiter.limit("api", "1/m")
    with pytest.raises(TypeError, match=r"must be a sluicegate\.aio\.Limit"):
        asgi.RateLimitMiddleware(hello, wrong)
    app = asgi.RateLimitMiddleware(hello, lambda scope: wrong)
    with pytest.raises(TypeError, match=r"got sluicegate\.Limit"):
        ask(app, "/")


def websocket(app: Any, extensions: dict[str, Any]) -> list[dict[str, Any]]:
    """What a handshake is answered with."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/",
        "query_string": b"",
        "headers": [],
        "client": ("192.0.2.1", 1),
        "extensions": extensions,
    }
    asyncio.run(app(scope, receive, send))
    return sent


@pytest.mark.parametrize("extended", [False, True])
def test_asgi_websockets(extended: bool, aio_limiter: aio.Limiter) -> None:
    async def accept(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})

    app = asgi.RateLimitMiddleware(accept, aio_limiter.limit("api", "1/m"))
    extensions: dict[str, Any] = {"websocket.http.response": {}} if extended else {}
    (accepted,) = websocket(app, extensions)
    assert accepted["type"] == "websocket.accept"
    assert (b"ratelimit", b'"api";r=0;t=60') in accepted["headers"]
    refused = websocket(app, extensions)
    if extended:
        assert [message["type"] for message in refused] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert refused[0]["status"] == 429
        assert (b"retry-after", b"60") in refused[0]["headers"]
        assert json.loads(refused[1]["body"])["status"] == 429
    else:
        assert refused == [{"type": "websocket.close", "code": 1013}]


def test_asgi_leaves_a_lifespan_alone(aio_limiter: aio.Limiter) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    wrapped: Callable[..., Awaitable[None]] = asgi.RateLimitMiddleware(app, aio_limiter.limit("api", "1/m"))
    for _ in range(3):
        asyncio.run(wrapped({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"] * 3


def test_fastapi_dependency(aio_limiter: aio.Limiter) -> None:
    app = FastAPI()
    login = RateLimit(aio_limiter.limit("login", "2/m"), legacy_headers=True)
    seen: list[Decision | None] = []

    @app.get("/login", responses=RESPONSES)
    async def log_in(decision: Decision | None = Depends(login)) -> str:  # noqa: B008
        seen.append(decision)
        return "in"

    answers = ask(app, *["/login"] * 3)
    assert statuses(answers) == [200, 200, 429]
    assert answers[1].headers["RateLimit"] == '"login";r=0;t=30'
    assert answers[1].headers["X-RateLimit-Remaining"] == "0"
    assert answers[2].headers["Retry-After"] == "30"
    assert answers[2].json()["detail"]["violated-policies"] == ["login"]
    assert [decision.remaining for decision in seen if decision] == [1, 0]
    described = ask(app, "/openapi.json")[0].json()["paths"]["/login"]["get"]["responses"]["429"]
    assert "Retry-After" in described["headers"]


def test_fastapi_problem_details_and_own_answers(aio_limiter: aio.Limiter) -> None:
    limited = Depends(RateLimit(aio_limiter.limit("api", "1/m"), key=lambda connection: "all"))
    app = FastAPI(dependencies=[limited])
    app.get("/")(lambda: "hello")
    use_problem_details(app)
    refused = ask(app, "/", "/")[1]
    assert (refused.status_code, refused.headers["Content-Type"]) == (429, PROBLEM)
    assert refused.headers["Retry-After"] == "60"
    assert refused.json()["violated-policies"] == ["api"]

    own = FastAPI(dependencies=[limited])
    own.get("/")(lambda: "hello")

    @own.exception_handler(HTTPRateLimited)
    async def answer(_request: Request, error: HTTPRateLimited) -> Response:
        return PlainTextResponse(f"wait {error.decision.retry_after}", 503)

    assert ask(own, "/")[0].text == "wait 60.0"


def test_fastapi_plans_and_permits(aio_limiter: aio.Limiter) -> None:
    jobs = aio_limiter.limit("jobs", "concurrency 1 ttl 30s")

    async def plan(connection: Any) -> aio.Limit | None:
        return None if connection.headers.get("x-plan") == "free" else jobs

    app = FastAPI()
    app.get("/", dependencies=[Depends(RateLimit(plan))])(lambda: "hello")
    assert "RateLimit" not in ask(app, "/", **{"X-Plan": "free"})[0].headers
    answers = ask(app, *["/"] * 3)
    assert statuses(answers) == [200] * 3
    assert "RateLimit-Policy" in answers[0].headers


def test_fastapi_websockets(aio_limiter: aio.Limiter) -> None:
    app = FastAPI()

    @app.websocket("/", dependencies=[Depends(RateLimit(aio_limiter.limit("api", "1/m")))])
    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    extensions: dict[str, Any] = {"websocket.http.response": {}}
    assert websocket(app, extensions)[0]["type"] == "websocket.accept"
    refused = websocket(app, extensions)
    assert refused[0]["status"] == 429
    assert (b"retry-after", b"60") in refused[0]["headers"]


def wsgi_app(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain"), ("Retry-After", "the app's own")])
    return [b"hello"]


def ask_wsgi(app: Any, path: str = "/", peer: str = "192.0.2.1", **headers: str) -> httpx.Response:
    transport = httpx.WSGITransport(app, remote_addr=peer)
    with httpx.Client(transport=transport, base_url="http://test") as session:
        return session.get(path, headers=headers)


def test_wsgi(limiter: Limiter) -> None:
    plans = {"free": limiter.limit("free", "2/m"), "paid": limiter.limit("paid", "4/m")}
    app = wsgi.RateLimitMiddleware(
        wsgi_app,
        lambda environ: plans.get(environ.get("HTTP_X_PLAN", "free")),
        cost=lambda environ: 2 if environ["PATH_INFO"] == "/search" else 1,
        skip=lambda environ: environ["PATH_INFO"] == "/health",
        legacy_headers=True,
    )
    answers = [ask_wsgi(app) for _ in range(3)]
    assert statuses(answers) == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"free";r=1;t=30'
    assert answers[0].headers["X-RateLimit-Limit"] == "2"
    assert answers[0].headers["Retry-After"] == "the app's own"
    assert answers[2].headers["Content-Type"] == PROBLEM
    assert answers[2].headers["Retry-After"] == "30"
    assert answers[2].json()["violated-policies"] == ["free"]
    assert ask_wsgi(app, **{"X-Forwarded-For": "203.0.113.9"}).status_code == 429
    assert ask_wsgi(app, peer="192.0.2.2").status_code == 200
    assert statuses(ask_wsgi(app, "/search", **{"X-Plan": "paid"}) for _ in range(3)) == [200, 200, 429]
    assert "RateLimit" not in ask_wsgi(app, **{"X-Plan": "none"}).headers
    assert statuses(ask_wsgi(app, "/health") for _ in range(3)) == [200] * 3


def test_wsgi_own_refusal_and_permits(limiter: Limiter) -> None:
    def refusal(environ: Any, decision: Decision) -> Any:
        def answer(environ: Any, start_response: Any) -> list[bytes]:
            start_response("503 Service Unavailable", [])
            return [b"full"]

        return answer

    app = wsgi.RateLimitMiddleware(wsgi_app, limiter.limit("jobs", "concurrency 1 ttl 30s"), refusal=refusal)
    environ = {"REMOTE_ADDR": "192.0.2.1"}
    first: Any = app(environ, lambda *_: lambda _: None)
    assert list(first) == [b"hello"]
    refused = ask_wsgi(app)
    assert (refused.status_code, refused.text) == (503, "full")
    assert refused.headers["RateLimit-Policy"] == '"jobs";q=1;qu="concurrent-requests"'
    first.close()
    assert statuses(ask_wsgi(app) for _ in range(3)) == [200] * 3

    def broken(environ: Any, start_response: Any) -> list[bytes]:
        raise ZeroDivisionError

    broken_app = wsgi.RateLimitMiddleware(broken, limiter.limit("jobs", "concurrency 1 ttl 30s"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            broken_app(environ, lambda *_: lambda _: None)


def flask_app(limits: Limits, limiter: Limiter) -> Flask:
    app = Flask(__name__)
    limits.init_app(app)
    app.get("/")(lambda: "hello")
    app.get("/health", endpoint="health")(limits.exempt(lambda: "well"))

    @app.get("/login")
    @limits.limit(limiter.limit("login", "1/m"), key=lambda: "everybody")
    def log_in() -> str:
        return "in"

    @app.get("/job")
    @limits.limit(limiter.limit("jobs", "concurrency 1 ttl 30s"))
    def job() -> str:
        return "done"

    return app


def test_flask(limiter: Limiter) -> None:
    app = flask_app(Limits(default=limiter.limit("web", "2/m"), legacy_headers=True), limiter)
    client = app.test_client()
    answers = [client.get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"web";r=1;t=30'
    assert answers[0].headers["X-RateLimit-Remaining"] == "1"
    assert answers[2].content_type == PROBLEM
    assert answers[2].headers["Retry-After"] == "30"
    assert answers[2].json
    assert answers[2].json["violated-policies"] == ["web"]
    assert client.get("/nowhere").status_code == 429
    assert [client.get("/login").status_code for _ in range(2)] == [200, 429]
    assert [client.get("/health").status_code for _ in range(4)] == [200] * 4
    assert [client.get("/job").status_code for _ in range(4)] == [200] * 4


def test_flask_answers_in_the_apps_own_way(limiter: Limiter) -> None:
    plans: dict[str, Any] = {"now": limiter.limit("web", "1/m")}
    app = flask_app(Limits(default=lambda: plans["now"], skip=lambda: False), limiter)

    @app.errorhandler(429)
    def slow_down(error: FlaskRateLimited) -> tuple[str, int]:
        return f"wait {error.decision.retry_after}", 429

    client = app.test_client()
    client.get("/")
    refused = client.get("/")
    assert refused.text == "wait 60.0"
    assert refused.headers["Retry-After"] == "60"
    plans["now"] = None
    assert "RateLimit" not in client.get("/").headers
    with pytest.raises(TypeError, match=r"must be a sluicegate\.Limit"):
        Limits(default=aio.Limiter().limit("web", "1/m"))  # type: ignore[arg-type]
