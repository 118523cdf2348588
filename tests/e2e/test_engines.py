"""The scenarios on other servers than the machine's own, and how they restart under a limiter."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import artefacts
import engines
import pytest
import redis_servers
import scenario_runs
from programs import Driver, Workshop
from redis_servers import RedisServer
from report import table

ENGINES: dict[str, Callable[[Path], Path]] = {"Redis 6.2": engines.redis_6_2, "Valkey 8": engines.valkey_8}
TABLE = ("other servers than the suite's own", "server", "core")


@pytest.fixture(scope="module", params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server's binary."""
    try:
        found = ENGINES[request.param](tmp_path_factory.mktemp("engine"))
    except engines.Unavailable as why:
        table(*TABLE).row(request.param, f"not here: {why}")
        pytest.skip(f"{request.param}: {why}")
    return str(found)


def test_scenarios(server: str) -> None:
    with RedisServer(server=server) as redis:
        runs = scenario_runs.runs("rust", artefacts.rust_scenarios(redis.url))
    on_server = {run for run in runs if run.store == "redis"}
    table(*TABLE).row(redis_servers.version(server), f"{len(on_server)} scenarios passed")
    assert scenario_runs.missing(runs) == []


def test_it_dies_and_returns(server: str, workshop: Workshop) -> None:
    recipe = workshop.recipe("python", "driver")
    with (
        RedisServer(server=server, persist=True, options=["--appendfsync", "no"]) as redis,
        Driver(recipe, redis.url, "fixed-window 100/h", timeout_s=1.0) as calls,
    ):

        def wait_for(source: str) -> int:
            """Calls until one is decided there; returns how many were admitted."""
            admitted = 0
            until = time.monotonic() + 20
            while time.monotonic() < until:
                answer = calls.call("k")
                assert answer["error"] is None, answer
                admitted += int(answer["allowed"])
                if answer["source"] == source:
                    return admitted
                time.sleep(0.02)
            raise AssertionError(f"no decision came from {source}")

        admitted = wait_for("redis")
        redis.command("SCRIPT", "FLUSH")
        admitted += wait_for("redis")
        redis.kill()
        admitted += wait_for("outage")
        redis.restart()
        admitted += wait_for("redis")
        admitted += sum(calls.call("k")["allowed"] for _ in range(150))
        assert admitted <= 100
