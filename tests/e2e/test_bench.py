"""`make bench` works: every race is run and every contender of ours serves. No figure is judged here.

A peer that keeps deciding otherwise than measured does not count; ours may not.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import artefacts
import pytest
from redis_servers import RedisServer
from rig import report
from rig.process import Contender
from rig.races import Claim, Group, Race, rate
from rig.run import TRIES, judged, race

# Serves rounds, of which those up to the number that it is given are odd: no Redis is asked.
FAKE = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for number, line in enumerate(sys.stdin):
    seconds = json.loads(line)["seconds"]
    odd = 7 if number < int(sys.argv[1]) else 0
    print(json.dumps({"decisions": 100, "total": 100, "seconds": seconds, "odd": odd}), flush=True)
"""
ROUNDS = 3


def test_a_short_run_measures_all_of_ours(tmp_path: Path) -> None:
    bench = artefacts.ROOT / "benches" / "bench.py"
    env = {**os.environ, "PYTHONPATH": str(artefacts.ROOT / "tests" / "tools")}
    artefacts.run([sys.executable, bench, "--quick", "--results", tmp_path], cwd=tmp_path, env=env)

    run = json.loads((tmp_path / "results.json").read_text())
    races = {
        name: {who for outcome in outcomes for who in outcome} for name, outcomes in run["races"].items()
    }
    assert races.pop("blocking") >= {"rust", "c", "python"}
    assert races.pop("flood") == {"rust", "python", "node"}
    assert races.pop("bytes") >= {"token-bucket", "gcra", "sliding-log"}
    assert set(races) == {
        *("asyncio-64", "asyncio-1", "node-64", "node-1"),
        *("rust-100000", "rust-1", "memory-1", "memory-2"),
    }
    assert all(contenders == {"sluicegate"} for contenders in races.values())
    for claim in run["claims"]:
        assert claim["value"] > 0, claim["text"]
    assert "## What is to be shown" in (tmp_path / "benchmarks.md").read_text()


def fakes(ours_odd: int, peer_odd: int) -> tuple[Group, Race]:
    """How many of the first rounds that are asked of each are odd."""
    contenders = [
        Contender("sluicegate", "ours", [sys.executable, "-c", FAKE, str(ours_odd)]),
        Contender("other", "theirs", [sys.executable, "-c", FAKE, str(peer_odd)], peer=True),
    ]
    fake = Race("fake", "A race of fakes", contenders, "sluicegate")

    def times(outcome: Any, peer: str) -> float:
        return rate(outcome, "sluicegate") / rate(outcome, peer)

    return Group("fake", 1, [fake], [Claim("fake", "times as fast", False, 2.0, times, ["other"])]), fake


@pytest.mark.parametrize(("odd", "left_out"), [(0, 0), (TRIES - 1, 0), (TRIES, 1), (TRIES * ROUNDS, ROUNDS)])
def test_a_peer_that_stays_odd_does_not_count(odd: int, left_out: int) -> None:
    group, fake = fakes(0, odd)
    with RedisServer() as redis:
        outcomes = race(fake, redis, ROUNDS, 0.01, print)
    (verdict,) = judged(group, {"fake": outcomes})
    run = {
        **{"machine": {"cores": 1, "cpu": "", "system": "", "load": ""}, "command": "", "date": ""},
        **{"versions": {}, "rounds": ROUNDS, "seconds": 0.01, "skipped": {}},
        **{"claims": [verdict], "races": {"fake": outcomes}},
    }
    text = report.markdown(run, {"fake": fake})

    assert len(outcomes) == ROUNDS
    assert verdict["value"] == (None if left_out == ROUNDS else 1.0)
    assert ("not measured" in text) == (left_out == ROUNDS)
    assert (f"theirs: {left_out} of {ROUNDS} rounds are left out" in text) == (left_out > 0)


def test_ours_may_not_stay_odd() -> None:
    _, fake = fakes(TRIES, 0)
    with (
        RedisServer() as redis,
        pytest.raises(RuntimeError, match="fake: sluicegate had 7 of 100 calls decided otherwise"),
    ):
        race(fake, redis, ROUNDS, 0.01, print)
