"""examples/pacing, run as its README says: four processes in three languages send at one rate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import artefacts

RATE, BURST, SECONDS = 2000, 20, 10


def test_four_processes_send_at_one_rate(tmp_path: Path) -> None:
    log = tmp_path / "sends.json"
    pacing = artefacts.ROOT / "examples" / "pacing" / "pacing.py"
    options = ["--rate", str(RATE), "--burst", str(BURST), "--seconds", str(SECONDS), "--log", str(log)]
    environment = {**os.environ, "PYTHONPATH": str(artefacts.ROOT / "tests" / "tools")}
    done = subprocess.run(
        [sys.executable, str(pacing), *options], env=environment, capture_output=True, text=True, timeout=180
    )
    print(done.stdout, done.stderr)
    # Not over the limit either.
    assert done.returncode == 0

    sends = json.loads(log.read_text())
    assert {name.split()[1] for name in sends} == {"python", "node", "c"}
    every = sorted(moment for moments in sends.values() for moment in moments)
    expected = RATE * SECONDS + BURST
    assert abs(len(every) - expected) <= expected * 0.005
    assert min(len(moments) for moments in sends.values()) >= 0.15 * len(every)
    gaps = sorted(((later - earlier) / 1e6 for earlier, later in pairwise(every)), reverse=True)
    print("largest gaps in ms:", *(f"{gap:.1f}" for gap in gaps[:5]))
