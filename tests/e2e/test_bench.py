"""`make bench` works: every race is run and every contender of ours serves. No figure is judged here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import artefacts


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
