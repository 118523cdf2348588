"""What the book's runbook says of `last_error` is what `last_error` says."""

from __future__ import annotations

from pathlib import Path

import artefacts
import pytest
from redis_servers import RedisServer
from snippets import DOCS

# Waits until the limiter says that the store is out, and prints why.
WHY = """
import sys, time, sluicegate
limiter = sluicegate.Limiter(sys.argv[1])
limit = limiter.limit("a", "5/s")
until = time.monotonic() + 30
while time.monotonic() < until:
    decision = limit.try_acquire("k")
    status = limiter.status()
    if status.state == "out" and decision.source == "outage":
        break
    time.sleep(0.01)
print(status.state, decision.source, status.last_error)
"""

REFUSALS = [
    ("CONFIG SET maxmemory 100kb", "OOM", "OOM"),
    ("REPLICAOF 127.0.0.1 1", "READONLY", "READONLY"),
    ("CONFIG SET requirepass secret", "a password, a user or permissions", "auth"),
    ("ACL SETUSER default -@all +ping +hello +client", "permissions", "permission"),
]


@pytest.mark.parametrize(("command", "documented", "said"), REFUSALS, ids=[row[1] for row in REFUSALS])
def test_why_redis_refuses(
    command: str, documented: str, said: str, python: Path, redis: RedisServer
) -> None:
    rows = [line for line in (DOCS / "runbook.md").read_text().splitlines() if "`last_error`" in line]
    assert any(documented in row.split("|")[1] for row in rows)
    redis.command(*command.split())
    printed = artefacts.run([python, "-c", WHY, redis.url], cwd=python.parent)
    assert printed.startswith("out outage ")
    assert said.lower() in printed.lower()
    assert "secret" not in printed
