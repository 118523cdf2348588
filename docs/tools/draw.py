"""Draws the pictures of "Choosing an algorithm", and the table beside them, into docs/pictures.

`make pictures` runs it; a test draws them again and compares.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import artefacts
import matplotlib as mpl
from matplotlib.figure import Figure

TOOLS = Path(__file__).resolve().parent
PICTURES = TOOLS.parent / "pictures"
WINDOW = 10.0
LIMIT = 10
END = 36.0
ADMITTED, REFUSED, WAITED = "#0a7d5a", "#b9b9b9", "#d98200"

Calls = list[tuple[float, float | None]]

# Text stays text, and names are the same in every run.
mpl.rcParams.update(
    {"svg.hashsalt": "sluicegate", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
)


def measured(python: Path) -> dict[str, Calls]:
    """What the library says that `python` has installed."""
    answer = artefacts.run([python, TOOLS / "traffic.py"], cwd=TOOLS)
    traffic: dict[str, Calls] = json.loads(answer)
    return traffic


def file_name(spec: str) -> str:
    return "-".join(spec.replace("/", "-per-").split()) + ".svg"


def within(times: list[float], at: float, length: float) -> int:
    """How many lie in the half-open window of `length` that ends at `at`. Tenths, so nothing is rounded."""
    return sum(round((at - length) * 10) < round(time * 10) <= round(at * 10) for time in times)


def draw(spec: str, calls: Calls, path: Path) -> None:
    went = [gone for _, gone in calls if gone is not None]
    holds = spec.startswith("concurrency")
    length, limit = (3.0, 3) if holds else (WINDOW, LIMIT)
    figure = Figure(figsize=(6.4, 2.0))
    ticks, lines = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3])
    refused = [came for came, gone in calls if gone is None]
    ticks.vlines(refused, 0, 1, colors=REFUSED, linewidth=0.8)
    at_once = [came for came, gone in calls if gone == came]
    later = [gone for came, gone in calls if gone is not None and gone != came]
    ticks.vlines(at_once, 0, 1, colors=ADMITTED, linewidth=1.2)
    ticks.vlines(later, 0, 1, colors=WAITED, linewidth=1.2)
    ticks.set_axis_off()
    ticks.set_title(spec, loc="left", fontsize=9)
    moments = [tenth / 10 for tenth in range(round(END * 10) + 1)]
    lines.step(moments, [within(went, at, length) for at in moments], where="post", color=ADMITTED)
    lines.axhline(limit, color="#c02020", linestyle="--", linewidth=0.8)
    lines.set_xlim(0, END)
    lines.set_ylim(0, limit * 2.2)
    lines.set_yticks([0, limit, limit * 2])
    lines.set_ylabel("held now" if holds else "in the last 10 s")
    lines.set_xlabel("seconds")
    for side in ("top", "right"):
        lines.spines[side].set_visible(False)
    figure.subplots_adjust(left=0.08, right=0.99, top=0.87, bottom=0.21, hspace=0.15)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def table(traffic: dict[str, Calls]) -> str:
    """What the pictures show, in figures."""
    rows = [
        "# Admitted",
        "",
        "| limit | came | went on at once | after a wait | refused | most in any 10 s |",
        "|---|---|---|---|---|---|",
    ]
    for spec, calls in traffic.items():
        went = [gone for _, gone in calls if gone is not None]
        at_once = sum(gone == came for came, gone in calls)
        most = max(within(went, at, WINDOW) for at in went)
        waited, refused = len(went) - at_once, len(calls) - len(went)
        rows.append(f"| `{spec}` | {len(calls)} | {at_once} | {waited} | {refused} | {most} |")
    return "\n".join(rows) + "\n"


def draw_all(traffic: dict[str, Calls], directory: Path) -> None:
    for spec, calls in traffic.items():
        draw(spec, calls, directory / file_name(spec))
    (directory / "admitted.md").write_text(table(traffic))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sluicegate-pictures-") as scratch:
        traffic = measured(artefacts.python_env(Path(scratch) / "python"))
    for old in PICTURES.glob("*"):
        old.unlink()
    draw_all(traffic, PICTURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
