"""examples/payments: four workers make payments at three providers, and no provider sees too many calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import artefacts
import pytest
from contracts import CONTRACTS, MOST_WORKERS, ON_THE_WAY
from providers import Providers
from redis_servers import RedisServer

PROGRAM = artefacts.ROOT / "examples" / "payments" / "payments.py"
PAYMENTS = 66
# What the specs say, without the example's own counting: at most so many in so many seconds.
RATES = {"cards": [(20, 1.0), (60, 5.0)], "transfers": [(11, 1.0)], "wallets": [(20, 1.0), (80, 5.0)]}
PLACES = {"wallets": 4}
# How long the limits let all payments take, and what a machine that is busy with other work may add.
IDEAL_S = {"cards": 5.0, "transfers": 8.0, "wallets": 5.0}
SCHEDULING_S = 20.0


def run(python: Path, log: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    line = [sys.executable, str(PROGRAM), "--python", str(python), "--log", str(log), *options]
    environment = {**os.environ, "PYTHONPATH": str(artefacts.ROOT / "tests" / "tools")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240)
    print(done.stdout, done.stderr)
    return done, json.loads(log.read_text())


def most_within(arrivals: list[float], seconds: float) -> int:
    return max(sum(start <= at < start + seconds for at in arrivals) for start in arrivals)


def test_no_provider_sees_too_many(frameworks: Path, tmp_path: Path) -> None:
    done, seen = run(frameworks, tmp_path / "log.json", "--payments", str(PAYMENTS))
    assert done.returncode == 0, done.stderr
    assert seen.keys() == RATES.keys() == {contract.name for contract in CONTRACTS}
    for name, provider in seen.items():
        arrivals = provider["arrivals"]
        # Every payment, and each of them once.
        assert provider["paid"] == {str(number): 1 for number in range(PAYMENTS)}
        assert len(arrivals) == PAYMENTS
        for count, seconds in RATES[name]:
            assert most_within(arrivals, seconds) <= count + ON_THE_WAY
        assert provider["at_once"] <= PLACES.get(name, MOST_WORKERS * 3)
        # Fast enough, too.
        assert arrivals[-1] - arrivals[0] <= IDEAL_S[name] + SCHEDULING_S
    # Over the whole run, calls on their way make no difference, and most gaps are those of a constant pace.
    transfers = seen["transfers"]["arrivals"]
    assert (transfers[-1] - transfers[0]) >= (PAYMENTS - 1 - ON_THE_WAY) / 10
    assert sum(later - earlier > 0.05 for earlier, later in pairwise(transfers)) > PAYMENTS / 2


def test_a_broken_contract_is_found(frameworks: Path, tmp_path: Path) -> None:
    """Each worker with limits of its own: the providers notice, and so does whoever started it."""
    # So many that the workers overlap, even if they start seconds apart.
    done, seen = run(frameworks, tmp_path / "log.json", "--payments", "120", "--store", "memory://")
    assert done.returncode == 1
    assert "CONTRACT BROKEN at wallets" in done.stdout
    assert all(provider["violations"] for provider in seen.values())
    assert seen["wallets"]["at_once"] > PLACES["wallets"]


def test_without_its_store_a_worker_waits(frameworks: Path, redis: RedisServer, tmp_path: Path) -> None:
    """And pays when the store is there again."""
    redis.kill()
    with Providers(CONTRACTS) as providers, (tmp_path / "queue").open("w+") as queue:
        queue.write("cards 1\nwallets 2\n")
        queue.seek(0)
        line = [str(frameworks), str(PROGRAM.with_name("worker.py")), redis.url, providers.url]
        worker = subprocess.Popen(line, stdin=queue, stdout=subprocess.PIPE, text=True)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                worker.wait(timeout=2.5)
            assert not any(provider.arrivals for provider in providers.all.values())
            redis.start()
            said, _ = worker.communicate(timeout=60)
        finally:
            worker.kill()
            worker.wait()
        paid = {name: dict(provider.paid) for name, provider in providers.all.items()}
    assert worker.returncode == 0
    assert paid == {"cards": {1: 1}, "transfers": {}, "wallets": {2: 1}}
    done = {name: counts.get("paid", 0) for name, counts in json.loads(said).items()}
    assert done == {"cards": 1, "transfers": 0, "wallets": 1}
