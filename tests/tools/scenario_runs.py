"""Reads from what a suite printed which scenarios it passed, on which store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
STORES = ("memory", "redis")

# How each runner names a scenario that it passed.
LINES = {
    "rust": r"^test (?P<file>[\w-]+): (?P<name>.*) \[(?P<store>\w+)[^]]*\] +\.\.\. ok$",
    "python": r"::test_\w+\[(?P<store>\w+)-(?P<file>[\w-]+): (?P<name>.*)\] PASSED",
    "c": r"^ok +(?P<store>\w+) (?P<file>[\w-]+)\.json: (?P<name>.*)$",
}


class Run(NamedTuple):
    store: str
    file: str
    name: str


def all_scenarios() -> list[tuple[str, str]]:
    """File and name of each."""
    files = sorted(file for file in SCENARIOS.glob("*.json") if file.name != "schema.json")
    return [(file.stem, each["name"]) for file in files for each in json.loads(file.read_text())["scenarios"]]


def node_runs(text: str) -> Iterator[Run]:
    """TAP: the file and store are those of the suite that was opened last."""
    suite = None
    for line in text.splitlines():
        if opened := re.match(r"^# Subtest: ([\w-]+)\.json on (\w+)$", line):
            suite = opened
        elif suite and (passed := re.match(r"^ +ok \d+ - (.*)$", line)):
            yield Run(suite[2], suite[1], passed[1].replace("\\#", "#").replace("\\\\", "\\"))


def runs(suite: str, text: str) -> list[Run]:
    """Every scenario passed, once for each time: a language may run it in several ways."""
    if suite == "node":
        return list(node_runs(text))
    if suite not in LINES:
        return []
    found = re.finditer(LINES[suite], text, flags=re.MULTILINE)
    return [Run(match["store"], match["file"], match["name"]) for match in found]


def missing(passed: list[Run]) -> list[Run]:
    """What a suite that must run every scenario on every store has not passed."""
    wanted = {Run(store, *scenario) for scenario in all_scenarios() for store in STORES}
    return sorted(wanted - set(passed))
