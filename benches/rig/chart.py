"""Draws the ratios: `chart.py RESULTS.json OUT.svg`, in the environment that has matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "sluicegate"
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["font.size"] = 8

from matplotlib import pyplot as plt  # noqa: E402

MET, MISSED, GOAL = "#2a7f62", "#c2571a", "#222222"


def panel(axes: Any, claims: list[dict[str, Any]], title: str) -> None:
    places = range(len(claims))
    values = [claim["value"] for claim in claims]
    colours = [MET if claim["met"] else MISSED for claim in claims]
    axes.barh(places, values, color=colours, height=0.6)
    axes.vlines(
        [claim["goal"] for claim in claims],
        [place - 0.42 for place in places],
        [place + 0.42 for place in places],
        color=GOAL,
        linewidth=1.5,
    )
    axes.set_xscale("log")
    for place, value in zip(places, values, strict=True):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.annotate(
            f"{value:.3g}", (value, place), (4, 0), textcoords="offset points", va="center", bbox=box
        )
    axes.set_yticks(list(places), [claim["text"].replace("`", "") for claim in claims])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    run = json.loads(Path(sys.argv[1]).read_text())
    drawn = [claim for claim in run["claims"] if claim["drawn"]]
    panels = [
        (
            [claim for claim in drawn if not claim["at_most"]],
            "Times as fast: more is better; the stroke is the goal",
        ),
        ([claim for claim in drawn if claim["at_most"]], "Time, p99 or bytes over theirs: less is better"),
    ]
    panels = [(claims, title) for claims, title in panels if claims]
    figure, axes = plt.subplots(
        len(panels),
        squeeze=False,
        figsize=(9, 1 + 0.28 * len(drawn) + 0.5 * len(panels)),
        height_ratios=[len(claims) for claims, _ in panels],
        layout="constrained",
    )
    for (claims, title), axis in zip(panels, axes[:, 0], strict=True):
        panel(axis, claims, title)
    figure.savefig(sys.argv[2], metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
