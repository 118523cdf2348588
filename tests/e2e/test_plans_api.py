"""examples/plans-api, started by its own `make run`: two processes of it hold each customer to one count."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import artefacts
import pytest
from redis_cluster import until
from redis_servers import RedisServer, free_port
from web_servers import Answer, Load, WebServer, all_say, through_an_outage

EXAMPLE = artefacts.ROOT / "examples" / "plans-api"
ANN, BEN, PIA, EVE = ({"X-API-Key": f"key-of-{name}"} for name in ("ann", "ben", "pia", "eve"))
PROXY = "127.0.0.9"
BUDGET_S = 0.1
# How late a machine that is busy with other work may run us and two servers.
SCHEDULING_S = 3.0
# A reply that comes later than the budget is that call's own outage: it is decided by its process's share,
# and may be paid twice.
LATE = 2


def enough(count: int) -> int:
    return count * 8 // 10


@dataclass(frozen=True)
class Api:
    servers: Sequence[WebServer]
    redis: RedisServer
    # Of the moment when nothing had been used yet.
    started: float

    def ask(self, times: int, path: str, headers: dict[str, str], source: str = "127.0.0.1") -> list[Answer]:
        """The processes in turn."""
        servers = [self.servers[number % len(self.servers)] for number in range(times)]
        return [server.get(path, headers, source) for server in servers]

    def most(self, burst: int, per_minute: float, cost: int = 1) -> int:
        """What a limit may have let through since the start."""
        return int(burst + LATE + (time.monotonic() - self.started) * per_minute / 60) // cost


@pytest.fixture(scope="module")
def api(frameworks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    directory = tmp_path_factory.mktemp("plans-api") / "plans-api"
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(persist=True))
        settings = [f"PYTHON={frameworks}", f"REDIS_URL={redis.url}", f"TRUSTED_PROXIES={PROXY} 10.0.0.0/8"]
        line = ["make", "--silent", "run", *settings]
        servers = [
            WebServer("plans-api", [*line, f"PORT={port}"], directory, port)
            for port in (free_port(), free_port())
        ]
        stack.enter_context(WebServer.all_at_once(servers))
        api = Api(servers, redis, time.monotonic())
        until("Redis decides", lambda: all_say(api.servers, "up"))
        yield api


def passed(answers: Sequence[Answer]) -> int:
    assert {answer.status for answer in answers} <= {200, 429}
    return Counter(answer.status for answer in answers)[200]


def test_its_requirements_are_those_that_it_is_tested_with(frameworks: Path) -> None:
    requirements = f"--requirement={EXAMPLE / 'requirements.txt'}"
    artefacts.pip(frameworks, "install", "--dry-run", "--no-index", "--quiet", requirements)


def test_each_plan_allows_what_it_says(api: Api) -> None:
    ann = api.ask(30, "/quotes/acme", ANN)
    assert enough(20) <= passed(ann) <= api.most(20, 20)
    pia = api.ask(230, "/quotes/acme", PIA)
    assert enough(200) <= passed(pia) <= api.most(200, 100)
    assert passed(api.ask(60, "/quotes/acme", EVE)) == 60
    # Ben is on Ann's plan, not on her count.
    (ben,) = api.ask(1, "/quotes/acme", BEN)
    assert json.loads(ben.body) == {"symbol": "acme", "price": "42.00", "for": "ben"}
    assert ben.headers["ratelimit-policy"] == '"plan-free-1";q=20;w=60, "plan-free-2";q=500;w=86400'
    refused = next(answer for answer in ann if answer.status == 429)
    assert refused.headers["content-type"] == "application/problem+json"
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    assert json.loads(refused.body)["violated-policies"] == ["plan-free-1"]


def test_a_report_takes_ten_and_looking_takes_nothing(api: Api) -> None:
    before = json.loads(api.ask(1, "/usage", EVE)[0].body)
    assert before["plan"] == "enterprise" and before["allows"] == "100/s burst 500"
    # Ben has used at most one of his twenty.
    answers = api.ask(4, "/reports/2024", BEN)
    assert 1 <= passed(answers) <= api.most(20, 20, cost=10)
    left = [json.loads(answer.body)["remaining"] for answer in api.ask(6, "/usage", BEN)]
    assert left[0] <= left[-1] < 20
    assert "ratelimit" in api.ask(1, "/usage", BEN)[0].headers


def test_strangers_are_limited_by_address(api: Api) -> None:
    def admitted(source: str, forwarded: str) -> int:
        answers = []
        for number in range(14):
            made_up = {"X-API-Key": f"guess-{number}", "X-Forwarded-For": forwarded.format(number)}
            answers += api.ask(1, "/quotes/acme", made_up, source)
        statuses = Counter(answer.status for answer in answers)
        assert set(statuses) == {401, 429}
        return statuses[401]

    # A stranger may write there what he likes; what the proxy adds at the end counts.
    assert enough(10) <= admitted("127.0.0.2", "203.0.113.{}") <= api.most(10, 10)
    assert enough(10) <= admitted(PROXY, "203.0.113.{}, 198.51.100.1") <= api.most(10, 10)
    assert enough(10) <= admitted(PROXY, "203.0.113.{}, 198.51.100.2") <= api.most(10, 10)
    # Addresses of one /64 are one client.
    assert enough(10) <= admitted(PROXY, "2001:db8:0:1::{}") <= api.most(10, 10)


def test_redis_is_away_under_load(api: Api) -> None:
    """The last test: what Pia has used since the first one counts."""
    loads = [Load("plans-api", server.port, "/quotes/acme", PIA) for server in api.servers]
    answers, healthy = through_an_outage(api.servers, api.redis, loads)
    assert {answer.status for answer in healthy} == {200}
    slowest = max(answer.seconds for answer in [*answers, *healthy])
    print(f"{len(answers)} requests, {passed(answers)} passed, slowest {slowest * 1000:.0f} ms")
    assert slowest <= BUDGET_S + SCHEDULING_S
    # Pia's tokens were used up, or nearly: at most a burst from then on, and twice that where a process
    # took long to find that Redis was back.
    assert 1 <= passed(answers) <= api.most(2 * 200, 100)
