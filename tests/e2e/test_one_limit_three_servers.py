"""A FastAPI, an Express and a C server share one key: exactly the limit passes through the three together."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import artefacts
import pytest
from http_clients import get, get_at_once, serving
from programs import SOURCES
from redis_servers import RedisServer, free_port

# A token comes back in 288 s.
COUNT = 300
SPEC = f"{COUNT}/day"
EACH = 200


@pytest.fixture
def servers(
    frameworks: Path, node_frameworks: Path, c_prefix: Path, tmp_path: Path
) -> dict[str, tuple[Sequence[str | Path], dict[str, str]]]:
    """How to start each, but for its arguments."""
    program = artefacts.compile_c(SOURCES / "http_server.c", tmp_path / "http_server", c_prefix)
    return {
        "fastapi": ([frameworks, SOURCES / "fastapi_server.py"], {}),
        "express": (["node", node_frameworks / "express_server.mjs"], {}),
        "c": ([program], artefacts.c_env(c_prefix)),
    }


def test_exactly_the_limit_passes(
    servers: dict[str, tuple[Sequence[str | Path], dict[str, str]]], redis: RedisServer, tmp_path: Path
) -> None:
    ports = {name: free_port() for name in servers}
    with contextlib.ExitStack() as running:
        for name, (command, env) in servers.items():
            line = [*command, redis.url, SPEC, str(ports[name])]
            running.enter_context(serving(line, ports[name], tmp_path, {**os.environ, **env}))
        first = [get(port) for port in ports.values()]
        answers = [*first, *get_at_once(list(ports.values()), EACH)]

    # Each of them lets some pass, together they let the limit pass, and all say the same of it.
    assert [answer.status for answer in first] == [200] * len(servers)
    assert len(answers) > EACH * len(servers) > COUNT
    assert Counter(answer.status for answer in answers) == {200: COUNT, 429: len(answers) - COUNT}
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {f'"api";q={COUNT};w=86400'}
    refused = [answer for answer in answers if answer.status == 429]
    assert {answer.headers["content-type"].partition(";")[0] for answer in refused} == {
        "application/problem+json"
    }
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert len({answer.body for answer in refused}) == 1
