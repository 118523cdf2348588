"""Ten million distinct keys: memory stays within what docs/bounds.md states, and none is forgotten."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import artefacts
from programs import SOURCES

DISTINCT = 10_000_000
# docs/bounds.md: a token bucket's state and a short key, in a table that has just grown.
BYTES_A_KEY = 155
# Not a matter of keys: what a process of this size does not give back, and our own buffers.
OVERHEAD_KB = 8 * 1024


def test_ten_million_keys(c_prefix: Path, tmp_path: Path) -> None:
    program = artefacts.compile_c(SOURCES / "many_keys.c", tmp_path / "many_keys", c_prefix)
    env = {**os.environ, **artefacts.c_env(c_prefix)}

    def run(max_keys: int) -> None:
        line = [str(program), str(max_keys), str(DISTINCT), "1/366d"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=240, env=env)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        grown_kb = seen["after_kb"] - seen["before_kb"]
        print(f"max_keys {max_keys:,}: {seen}, {grown_kb * 1024 / seen['kept']:.0f} bytes a key")
        # The parts of the table do not fill evenly, and its bound is a multiple of their number.
        assert max_keys * 0.98 <= seen["kept"] <= max_keys + 64
        assert seen["first"] == seen["kept"]
        assert seen["no_room"] >= DISTINCT - seen["first"]
        # Used up for a year: a key that is admitted again was forgotten.
        assert seen["again"] == 0
        assert grown_kb * 1024 <= max_keys * BYTES_A_KEY + OVERHEAD_KB * 1024

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, [1_000_000, DISTINCT]))
