"""Runs every suite, each with its own runner, and closes with the sum of what they counted.

    make test                                                  all
    .venv/bin/python tests/tools/run_tests.py c valgrind       only some

A suite passes when its runner says so by its exit code, it has run at least one test, and, where
its language runs the scenarios, it has passed every scenario on every store.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import artefacts
import scenario_runs
from redis_servers import RedisServer, die_with_parent, version

ROOT = artefacts.ROOT
# What each runner says of its tests: passed, failed.
CARGO = (r"^test result: .* (\d+) passed;", r"^test result: .* (\d+) failed;")
PYTEST = (r"(\d+) passed.* in \d.*s", r"(\d+) (?:failed|errors?).* in \d.*s")
TAP = (r"^# pass (\d+)", r"^# (?:fail|cancelled) (\d+)")
PLAIN = (r"(\d+) passed", r"(\d+) failed")
SHOWN = 20


@dataclass(frozen=True)
class Suite:
    name: str
    counts: tuple[str, str]
    command: Callable[[Path], Sequence[str | Path]]
    directory: Path = ROOT
    runs_scenarios: bool = True


@dataclass
class Result:
    code: int
    passed: int
    failed: int
    seconds: float
    scenarios: Counter[str] = field(default_factory=Counter)
    missing: Sequence[scenario_runs.Run] = ()

    def well(self) -> bool:
        return self.code == 0 and self.failed == 0 and self.passed > 0 and not self.missing


def python_tests(scratch: Path) -> Sequence[str | Path]:
    """The Python tests see the wheel in a fresh environment, not the source tree."""
    binding = ROOT / "bindings-python"
    python = artefacts.python_env(scratch / "python", f"--requirement={binding / 'requirements-dev.txt'}")
    pytest: list[str | Path] = [python, "-m", "pytest", "-v", "--import-mode=importlib"]
    return [*pytest, "-c", binding / "pyproject.toml", binding / "tests"]


def node_tests(_: Path) -> Sequence[str | Path]:
    files = sorted((ROOT / "bindings-node" / "test").glob("*.test.mjs"))
    return ["node", "--test", "--test-reporter=tap", *files]


def c_tests(target: str) -> Callable[[Path], Sequence[str]]:
    return lambda _: ["make", "--no-print-directory", "-C", "bindings-c", target]


def fuzz_targets(_: Path) -> Sequence[str]:
    """Each for some seconds: enough to find what breaks easily, and that the targets still build."""
    return [sys.executable, "tests/tools/fuzz.py", "4"]


def end_to_end_tests(_: Path) -> Sequence[str]:
    return [sys.executable, "-m", "pytest", "-v", "-c", "tests/pytest.ini", "tests/e2e"]


SUITES = [
    Suite("rust", CARGO, lambda _: ["cargo", "test", "--workspace", "--locked", "--no-fail-fast"]),
    Suite("python", PYTEST, python_tests),
    Suite("node", TAP, node_tests, ROOT / "bindings-node"),
    Suite("c", PLAIN, c_tests("test")),
    Suite("valgrind", PLAIN, c_tests("test-valgrind"), runs_scenarios=False),
    Suite("asan", PLAIN, c_tests("test-asan"), runs_scenarios=False),
    Suite("fuzz", PLAIN, fuzz_targets, runs_scenarios=False),
    Suite("e2e", PYTEST, end_to_end_tests, runs_scenarios=False),
]


def total(pattern: str, text: str) -> int:
    return sum(int(number) for number in re.findall(pattern, text, flags=re.MULTILINE))


def run(suite: Suite, scratch: Path) -> Result:
    """Runs one suite beside a Redis of its own, showing and reading what its runner prints."""
    print(f"\n=== {suite.name}, on {version()}", flush=True)
    started = time.monotonic()
    lines = []
    with RedisServer() as redis:
        process = subprocess.Popen(
            [str(word) for word in suite.command(scratch)],
            cwd=suite.directory,
            env={**os.environ, "SLUICEGATE_TEST_REDIS": redis.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent,
        )
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
    text = "".join(lines)
    passed, failed = (total(pattern, text) for pattern in suite.counts)
    result = Result(process.returncode, passed, failed, time.monotonic() - started)
    if suite.runs_scenarios:
        runs = scenario_runs.runs(suite.name, text)
        result.scenarios = Counter(each.store for each in runs)
        result.missing = scenario_runs.missing(runs)
    return result


def summarise(results: dict[str, Result]) -> bool:
    print("\n=== summary")
    for name, result in results.items():
        for store, file, scenario in result.missing[:SHOWN]:
            print(f"{name}: scenario not passed on {store}: {file}: {scenario}")
        if len(result.missing) > SHOWN:
            print(f"{name}: and {len(result.missing) - SHOWN} more")
    runs = sum((result.scenarios for result in results.values()), Counter[str]())
    count = len(scenario_runs.all_scenarios())
    print(f"{count} scenarios, {runs.total()} language x store runs, on {version()}")
    for name, result in results.items():
        if result.scenarios:
            print(
                "  {:8} {}".format(
                    name, ", ".join(f"{n} on {store}" for store, n in result.scenarios.items())
                )
            )
    for name, result in results.items():
        word = "ok" if result.well() else f"FAILED (exit code {result.code})"
        print(f"{name:8} {result.passed:6} passed {result.failed:4} failed {result.seconds:7.1f} s  {word}")
    # A suite can fail without a failed test: by a crash, or by tests that it left out.
    failed = sum(max(result.failed, 0 if result.well() else 1) for result in results.values())
    print(f"{sum(result.passed for result in results.values())} passed, {failed} failed")
    return failed == 0


def main() -> int:
    asked = sys.argv[1:]
    if set(asked) - {suite.name for suite in SUITES}:
        print(__doc__, "\nsuites:", *(suite.name for suite in SUITES), file=sys.stderr)
        return 2
    # Also SIGINT: a shell starts what it puts in the background deaf to it, and tests send it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    results = {}
    with tempfile.TemporaryDirectory(prefix="sluicegate-tests-") as scratch:
        for suite in SUITES:
            if not asked or suite.name in asked:
                results[suite.name] = run(suite, Path(scratch))
    return 0 if summarise(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
