"""Runs ours and the peers' side by side on one Redis, and writes down the ratios: `make bench`.

make bench                                          all, into docs/benchmarks.md and .svg
make bench BENCH="--only node --rounds 9"           one group, into benches/results alone
make bench BENCH=--quick                            whether the rig works, without the peers
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import artefacts
from redis_servers import RedisServer
from rig import report, size
from rig.build import BENCHES, build
from rig.races import GROUPS, Race
from rig.run import judged, race

DOCS = artefacts.ROOT / "docs"
RESULTS = BENCHES / "results"


def say(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of each race")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contender in a round")
    parser.add_argument(
        "--only", action="append", choices=[*GROUPS, "bytes"], help="a group; may be repeated"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round of ours, to see that the rig works"
    )
    parser.add_argument("--no-peers", action="store_true", help="ours and redis-benchmark alone")
    parser.add_argument(
        "--results", type=Path, help="where raw results go; a new directory in benches/results"
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds must be 1 or more, --seconds above 0")
    if options.quick:
        options.rounds, options.seconds, options.no_peers = 1, 0.1, True
    return options


def machine() -> dict[str, Any]:
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu[1] if cpu else platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def main() -> int:
    options = arguments()
    peers = not options.no_peers
    run: dict[str, Any] = {
        "command": " ".join(["make bench", *([f'BENCH="{" ".join(sys.argv[1:])}"'] if sys.argv[1:] else [])]),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "rounds": options.rounds,
        "seconds": options.seconds,
    }
    built = build(say, peers=peers)
    for what, why in built.skipped.items():
        say(f"left out: {what}, as there is {why}")
    run |= {
        "machine": machine(),
        "versions": built.versions,
        "skipped": built.skipped,
        "claims": [],
        "races": {},
    }
    wanted = options.only or [*GROUPS, "bytes"]
    races: dict[str, Race] = {}
    with RedisServer() as redis:
        for name in wanted:
            group = size.group(built, peers) if name == "bytes" else GROUPS[name](built, redis.url, peers)
            outcomes: dict[str, list[Any]] = {}
            for each in group.races:
                races[each.name] = each
                outcomes[each.name] = (
                    [size.measure(redis, built, peers)]
                    if name == "bytes"
                    else race(each, redis, options.rounds, options.seconds, say)
                )
            run["races"] |= outcomes
            run["claims"] += judged(group, outcomes)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    write(run, races, options.results or RESULTS / stamp, whole=peers and not options.only)
    return 0


def write(run: dict[str, Any], races: dict[str, Race], raw: Path, *, whole: bool) -> None:
    """The raw results, and the pages; these go to docs/ where nothing was left out."""
    raw.mkdir(parents=True, exist_ok=True)
    results = raw / "results.json"
    results.write_text(json.dumps(run, indent=1))
    pages = DOCS if whole else raw
    pages.mkdir(exist_ok=True)
    text = report.markdown(run, races)
    (pages / "benchmarks.md").write_text(text)
    say("\n" + text)
    say(f"raw results: {results}")
    python = BENCHES / ".built" / "python" / "bin" / "python"
    if python.exists() and any(claim["drawn"] for claim in run["claims"]):
        artefacts.run([python, BENCHES / "rig" / "chart.py", results, pages / "benchmarks.svg"], cwd=raw)


if __name__ == "__main__":
    sys.exit(main())
