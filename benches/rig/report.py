"""The outcome as Markdown."""

from __future__ import annotations

import statistics
from typing import Any

from rig.races import Race, counts, rate
from rig.run import TRIES, median_rate, medians


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f}"


def _claims(verdicts: list[dict[str, Any]]) -> list[str]:
    lines = ["| | what | goal | median | least to greatest | |", "|---|---|---|---|---|---|"]
    for verdict in verdicts:
        unit = verdict["unit"]
        goal = f"{'at most' if verdict['at_most'] else 'at least'} {verdict['goal']:g}{unit}"
        if verdict["value"] is None:
            lines.append(f"| {verdict['group']} | {verdict['text']} | {goal} | - | - | not measured |")
            continue
        span = f"{number(verdict['least'])} to {number(verdict['greatest'])}"
        met = "met" if verdict["met"] else "**missed**"
        median = number(verdict["value"]) + unit
        lines.append(f"| {verdict['group']} | {verdict['text']} | {goal} | {median} | {span} | {met} |")
    return lines


def _race(race: Race, outcomes: list[dict[str, dict[str, Any]]]) -> list[str]:
    labels = {contender.name: contender.label for contender in race.contenders}
    over = labels.get(race.reference, race.reference)
    columns = {"own_cpu_us": "own CPU us a decision"}
    if not race.name.startswith("memory"):
        columns |= {"p50_us": "p50 us", "p99_us": "p99 us"} if not race.counted else {}
        columns |= (
            {"seen_per_s": "calls a second that Redis sees"}
            if race.counted
            else {"script_us": "Redis us a decision: scripts", "redis_cpu_us": "its CPU"}
        )
    head = ["who", "decisions a second", "us a decision", f"time over {over}", *columns.values()]
    lines = [f"### {race.title}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    left_out = []
    for name in outcomes[0]:
        label = labels.get(name, name)
        sound = [outcome for outcome in outcomes if counts(outcome, name)]
        if len(sound) < len(outcomes):
            left_out += [
                f"{label}: {len(outcomes) - len(sound)} of {len(outcomes)} rounds are left out, as it decided"
                f" some calls otherwise than measured, each of the {TRIES} times that the round was run.",
                "",
            ]
        median = median_rate(outcomes, name)
        if median is None:
            continue
        ratios = [rate(outcome, race.reference) / rate(outcome, name) for outcome in sound]
        cells = [label, number(median), number(1e6 / median), number(statistics.median(ratios))]
        cells += [number(medians(sound, name, field)) for field in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", *left_out]


def _sizes(sizes: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["### Bytes in Redis for a key", ""]
    lines += ["| who | under names of one length | under its own names |", "|---|---|---|"]
    for one in sizes.values():
        lines.append(f"| {one['label']} | {one['bytes_alike']:,} | {one['bytes']:,} |")
    return [*lines, ""]


def markdown(run: dict[str, Any], races: dict[str, Race]) -> str:
    machine = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run["versions"].items()))
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{run['command']}`; not to be edited. {run['date']}, {machine['cores']} cores of"
        f" {machine['cpu']}, {machine['system']}; Redis on the same machine."
        f" Load average before: {machine['load']}.",
        f"{run['rounds']} interleaved rounds of {run['seconds']:g} s for each contender, in rotating order."
        " A ratio is taken within a round; the table has the median of these."
        " `benches/README.md` says what each contender does.",
        "",
        f"Versions: {versions}.",
        "",
        "## What is to be shown",
        "",
        "![The ratios and their goals](benchmarks.svg)",
        "",
        *_claims(run["claims"]),
        "",
    ]
    lines += [f"Left out: {what}, as there is {why}." for what, why in run["skipped"].items()]
    lines += ["## Who did what", ""]
    for name, outcomes in run["races"].items():
        lines += _sizes(outcomes[0]) if name == "bytes" else _race(races[name], outcomes)
    return "\n".join(lines).rstrip() + "\n"
