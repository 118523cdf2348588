"""The programs of docs/node-frameworks.md, as written, in a project outside the repository that has the
package and the frameworks; only the ports are others."""

from __future__ import annotations

import contextlib
import http.server
import math
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import artefacts
import pytest
from http_clients import Answer, Client, Load, eventually, get, get_at_once, serving
from redis_servers import LOOPBACK, RedisServer, free_port

FRAMEWORKS = ("express", "fastify", "koa", "hono", "nest")
COUNT, PERIOD_S = 100, 60
# A reply that comes later than the programs' budget, on a busy machine, counts as lost and is paid twice.
ENOUGH = 90
BUDGET_S = 0.1
# How late a machine that is busy with other work may run us.
SCHEDULING_S = 2.0


@dataclass(frozen=True)
class Server:
    port: int
    redis: RedisServer

    def state(self) -> str:
        """What the program's own `limiter.status()` says, on a route that is not limited."""
        return str(get(self.port, "/health").json()["state"])


def program(node_frameworks: Path, name: str, redis: RedisServer, port: int) -> Path:
    """One of the page's programs, on other ports."""
    source = next(file for file in (node_frameworks / "built").iterdir() if file.stem == name)
    text = source.read_text()
    assert "localhost:6379" in text
    text = re.sub(r"\b3000\b", str(port), text.replace("localhost:6379", f"localhost:{redis.port}"))
    moved = node_frameworks / f"{name}-{port}{source.suffix}"
    moved.write_text(text)
    return moved


@pytest.fixture
def start(node_frameworks: Path, redis: RedisServer) -> Iterator[StartsServers]:
    with StartsServers(node_frameworks, redis) as starts:
        yield starts


class StartsServers:
    def __init__(self, node_frameworks: Path, redis: RedisServer) -> None:
        self._project, self._redis = node_frameworks, redis
        self._running = contextlib.ExitStack()

    def __call__(self, name: str) -> Server:
        port = free_port()
        command: list[str | Path] = ["node", program(self._project, name, self._redis, port)]
        self._running.enter_context(serving(command, port, self._project))
        server = Server(port, self._redis)
        eventually("the store decides", lambda: server.state() == "up")
        return server

    def __enter__(self) -> StartsServers:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def most(seconds: float, count: int = COUNT) -> int:
    """What a full bucket of the page's limit admits in a time."""
    return count + math.floor(seconds * count / PERIOD_S)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_over_its_limit(framework: str, start: StartsServers) -> None:
    server = start(framework)
    started = time.monotonic()
    first = get(server.port)
    assert (first.status, first.body) == (200, "hello")
    assert first.headers["ratelimit-policy"] == f'"api";q={COUNT};w={PERIOD_S}'
    assert re.fullmatch(rf'"api";r={COUNT - 1};t=\d+', first.headers["ratelimit"])
    assert "retry-after" not in first.headers

    answers = [first, *get_at_once([server.port], 150)]
    passed = statuses(answers)
    assert set(passed) == {200, 429}
    assert ENOUGH <= passed[200] <= most(time.monotonic() - started)

    # Spoofed headers of any kind are still the same client; another address is another.
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP"):
        values = ("203.0.113.7", "for=203.0.113.7")
        answers.extend(get(server.port, headers={header: value}) for value in values)
    assert statuses(answers)[200] <= most(time.monotonic() - started)
    assert get(server.port, address="127.0.0.2").status == 200

    refused = next(answer for answer in reversed(answers) if answer.status == 429)
    assert refused.headers["content-type"].partition(";")[0] == "application/problem+json"
    assert int(refused.headers["retry-after"]) == 1
    assert re.fullmatch(r'"api";r=0;t=\d+', refused.headers["ratelimit"])
    problem = refused.json()
    assert (problem["status"], problem["violated-policies"]) == (429, ["api"])
    # What is not limited has no fields.
    health = get(server.port, "/health")
    assert health.status == 200 and "ratelimit" not in health.headers
    assert int(server.redis.command("DBSIZE")) >= 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_redis_killed_under_load(framework: str, start: StartsServers) -> None:
    server = start(framework)
    with Load(server.port) as load:
        eventually("there is load", lambda: len(load.answers) > 50 or bool(load.errors))
        server.redis.kill()
        eventually("status() says out", lambda: server.state() == "out")
        reached = len(load.answers)
        eventually("decided without Redis", lambda: len(load.answers) > reached + 100 or bool(load.errors))
        server.redis.restart()
        eventually("status() says up", lambda: server.state() == "up")
        reached = len(load.answers)
        eventually("decided after it", lambda: len(load.answers) > reached + 50 or bool(load.errors))
    assert load.errors == []
    assert set(statuses(load.answers)) <= {200, 429}
    slowest = max(answer.seconds for answer in load.answers)
    print(f"{framework}: {len(load.answers)} requests, slowest {slowest * 1000:.0f} ms")
    assert slowest <= BUDGET_S + SCHEDULING_S
    assert int(server.redis.command("DBSIZE")) > 0


def test_fastify_routes_have_their_own_cost(start: StartsServers) -> None:
    server = start("fastify")
    started = time.monotonic()
    answers = [get(server.port, "/report") for _ in range(4)]
    assert answers[0].headers["ratelimit"].startswith('"api";r=50;')
    assert 1 <= statuses(answers)[200] <= most(time.monotonic() - started) // 50
    # Where no route is found, it is limited as well.
    missing = get(server.port, "/nowhere", address="127.0.0.3")
    assert missing.status == 404 and "ratelimit" in missing.headers


def test_options(start: StartsServers) -> None:
    """A limit by plan, a cost by path, proxies that are trusted, the older fields, a body of one's own."""
    server = start("options")
    client = Client(server.port)

    def who(address: str, **headers: str) -> dict[str, str]:
        return {"X-Forwarded-For": address, **{name.replace("_", "-"): at for name, at in headers.items()}}

    started = time.monotonic()
    answers = [client.get("/export", who("203.0.113.1")) for _ in range(3)]
    assert 1 <= statuses(answers)[200] <= most(time.monotonic() - started, 10) // 5
    first = answers[0]
    refused = next(answer for answer in answers if answer.status == 429)
    assert (first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]) == ("10", "5")
    assert refused.headers["content-type"].replace(" ", "") == "application/json;charset=utf-8"
    assert refused.json()["error"] == "slow down" and refused.json()["retryAfterMs"] > 0
    # Another client, and the same as a VIP, has its own; what a client says of itself does not count.
    assert client.get("/", who("203.0.113.2")).status == 200
    assert client.get("/", who("203.0.113.1", x_plan="vip")).headers["x-ratelimit-limit"] == "1000"
    assert client.get("/export", who("198.51.100.9, 203.0.113.1")).status == 429
    # A /64 is one client.
    left = [client.get("/", who(f"2001:db8:0:1::{host}")).headers["x-ratelimit-remaining"] for host in (1, 2)]
    assert left[0] == "9" and int(left[1]) < 9
    assert client.get("/health").status == 200
    client.close()


def test_nest_on_fastify(node_frameworks: Path, redis: RedisServer) -> None:
    port = free_port()
    command: list[str | Path] = ["node", node_frameworks / "built" / "nest_fastify.js", redis.url, str(port)]
    with serving(command, port, node_frameworks):
        answers = [get(port) for _ in range(2)] + [get(port, "/costly") for _ in range(2)]
        problem = get(port)
        health = get(port, "/health")
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[2].headers["ratelimit"].startswith('"api";r=0;')
    assert (answers[3].body, answers[3].headers["content-type"]) == ("slow down", "text/plain; charset=utf-8")
    assert problem.status == 429 and problem.json()["violated-policies"] == ["api"]
    assert problem.headers["content-type"].partition(";")[0] == "application/problem+json"
    assert health.status == 200 and "ratelimit" not in health.headers


class Provider(http.server.ThreadingHTTPServer):
    """Notes when it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        super().__init__((LOOPBACK, free_port()), Answers)


class Answers(http.server.BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.calls.append((time.monotonic(), self.path))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_fetch_waits_its_turn(node_frameworks: Path, redis: RedisServer) -> None:
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever)
    thread.start()
    try:
        file = program(node_frameworks, "fetch", redis, provider.server_port)
        file.write_text(file.read_text().replace("http://localhost", f"http://{LOOPBACK}"))
        started = time.monotonic()
        done = subprocess.run(["node", file], cwd=node_frameworks, capture_output=True, text=True, timeout=60)
    finally:
        provider.shutdown()
        thread.join()
        provider.server_close()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["200"] * 20
    assert sorted(path for _, path in provider.calls) == sorted(f"/orders/{order}" for order in range(20))
    # Twenty at ten a second: the last one's turn is 1.9 s after the first one's.
    assert provider.calls[-1][0] - started >= 1.9
    for number, (at, _) in enumerate(provider.calls):
        assert number <= (at - started) * 10 + 1


def test_guard(node_frameworks: Path, redis: RedisServer) -> None:
    file = program(node_frameworks, "guard", redis, 3000)
    done = subprocess.run(["node", file], cwd=node_frameworks, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[0] == "sent to a@example.com"
    assert re.fullmatch(r"refused; again in [\d.]+ ms", lines[2])


def test_the_page_tells_of_every_option(node: Path) -> None:
    page = (artefacts.ROOT / "docs" / "node-frameworks.md").read_text()
    fields = []
    for part in ("shared", "fetch", "fastify"):
        declared = (node / "node_modules" / "sluicegate" / "frameworks" / f"{part}.d.ts").read_text()
        (options,) = re.findall(
            r"^export interface \w*Options.*?\{\n(.*?)^\}", declared, re.DOTALL | re.MULTILINE
        )
        fields += re.findall(r"^  (\w+)\??:", options, re.MULTILINE)
    assert len(fields) > 12
    assert [name for name in fields if not re.search(rf"`{name}\b", page)] == []


def test_what_is_not_asked_for_is_not_loaded(node: Path) -> None:
    """Without any framework, all but Nest's part loads through both doors."""
    names = [*FRAMEWORKS, "fetch"]
    lines = [
        "import { createRequire } from 'node:module'",
        "const load = createRequire(import.meta.url)",
        f"for (const name of {names}) {{",
        "  try { load(`sluicegate/${name}`); await import(`sluicegate/${name}`); console.log(name) }",
        "  catch (error) { console.log(error.message.split('\\n')[0]) }",
        "}",
    ]
    (node / "doors.mjs").write_text("\n".join(lines))
    out = artefacts.run(["node", "doors.mjs"], cwd=node).splitlines()
    assert out == [
        *(name for name in names if name not in ("nest", "fetch")),
        "Cannot find module '@nestjs/common'",
        "fetch",
    ]
