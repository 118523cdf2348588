"""Builds the fuzz targets of tests/fuzz and runs each for some seconds, two at a time.

    .venv/bin/python tests/tools/fuzz.py 600             each target for ten minutes
    .venv/bin/python tests/tools/fuzz.py 60 url reply    only some
    .venv/bin/python tests/tools/fuzz.py 600 --keep      adds to the corpus what reached something new

It starts from the inputs that are kept in tests/fuzz/corpus, and leaves what makes a target fail in
tests/fuzz/artifacts. It needs no more than the stable toolchain; what is fuzzed is compiled with a
fuzzer's instrumentation (tests/fuzz/instrument.sh), in a target directory of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import artefacts
from redis_servers import die_with_parent

FUZZ = artefacts.ROOT / "tests" / "fuzz"
TARGETS = sorted(source.stem for source in (FUZZ / "fuzz_targets").glob("*.rs"))
AT_ONCE = 2
# One input may take so long, and one target so much memory.
SECONDS_AN_INPUT, MEGABYTES = 30, 3000
# Reading the kept inputs comes first, on top of the seconds.
GRACE = 240


@dataclass
class Run:
    target: str
    code: int
    text: str
    seconds: float

    def line(self) -> str:
        runs = re.search(r"^Done (\d+) runs", self.text, flags=re.MULTILINE)
        covered = re.findall(r"cov: (\d+)", self.text)
        word = "ok" if self.code == 0 else f"FAILED (exit code {self.code})"
        return (
            f"fuzz: {self.target:8} {int(runs[1]) if runs else 0:10,} runs, "
            f"{covered[-1] if covered else '?':>5} edges, {self.seconds:6.1f} s  {word}"
        )


def build() -> Path:
    """Builds all targets; returns the directory of the programs."""
    target = artefacts.ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "fuzz"
    env = {**os.environ, "RUSTC_WRAPPER": str(FUZZ / "instrument.sh")}
    line = ["cargo", "build", "--quiet", "--locked", "--bins", "--target-dir", str(target)]
    subprocess.run(line, cwd=FUZZ, env=env, check=True)
    return target / "debug"


def fuzz(program: Path, seconds: int, keep: bool) -> Run:
    kept, artifacts = FUZZ / "corpus" / program.name, FUZZ / "artifacts" / program.name
    for directory in (kept, artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    line = [str(program), f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/"]
    line += [f"-timeout={SECONDS_AN_INPUT}", f"-rss_limit_mb={MEGABYTES}", "-print_final_stats=0"]
    dictionary = FUZZ / "dictionaries" / f"{program.name}.dict"
    if dictionary.exists():
        line.append(f"-dict={dictionary}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluicegate-fuzz-") as found:
        done = subprocess.run(
            [*line, found, str(kept)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds + GRACE,
            preexec_fn=die_with_parent,
        )
        if keep and done.returncode == 0:
            # The fewest inputs that reach all that was reached.
            merge = [str(program), "-set_cover_merge=1", "-verbosity=0", str(kept), found]
            subprocess.run(merge, check=True, timeout=GRACE, stderr=subprocess.DEVNULL)
    return Run(program.name, done.returncode, done.stdout, time.monotonic() - started)


def main() -> int:
    keep = "--keep" in sys.argv
    asked = [word for word in sys.argv[2:] if word != "--keep"] or TARGETS
    if len(sys.argv) < 2 or not sys.argv[1].isdecimal() or set(asked) - set(TARGETS):
        print(__doc__, "\ntargets:", *TARGETS, file=sys.stderr)
        return 2
    seconds, started = int(sys.argv[1]), time.monotonic()
    programs = build()
    print(f"fuzz: built in {time.monotonic() - started:.1f} s", flush=True)
    failed = 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for run in threads.map(lambda name: fuzz(programs / name, seconds, keep), asked):
            if run.code != 0:
                failed += 1
                print(run.text[-8000:])
            print(run.line(), flush=True)
    print(f"fuzz targets: {len(asked) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
