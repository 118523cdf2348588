"""Seven processes in four languages share one limit, while Redis dies and comes back empty.

    make demo

At one third of the run Redis gets SIGKILL, at two thirds it is started again without its data.
The exit code is 0 if no phase admitted more than rate x time + burst, no call threw, the rate
was used up while Redis was there, and every process used Redis again after its return.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from phases import Phase, attribute
from redis_servers import RedisServer
from table import Display
from workers import Recipe, Worker, install

RATE, BURST = 100, 50
SPEC = f"{RATE}/s burst {BURST}"
# Each process asks for more than the whole limit, and seven still leave two cores half idle.
CALLS_PER_SECOND = 120
# How long the limit's first burst, and the return to Redis, may take before the rate must be steady.
SETTLE_AT_START, SETTLE_AFTER_RETURN = 1.0, 2.0
PHASES = ("phase 1 (redis up)", "phase 2 (redis dead)", "phase 3 (redis back, empty)")


class Demo:
    def __init__(self, redis: RedisServer, workers: Sequence[Worker], seconds: float) -> None:
        self.redis = redis
        self.workers = workers
        self.third = seconds / 3
        self.display = Display(workers)
        self.started = 0.0

    async def run(self) -> list[Phase]:
        """Goes through the three phases and returns when each began and ended."""
        for worker in self.workers:
            await asyncio.wait_for(worker.ready.wait(), timeout=30)
        self.started = time.time()
        for worker in self.workers:
            worker.say_go()
        await self._watch(PHASES[0], until=self.started + self.third)
        killed = time.time()
        self.redis.kill()
        await self._watch(PHASES[1], until=self.started + 2 * self.third)
        self.redis.restart()
        returned = time.time()
        await self._watch(PHASES[2], until=self.started + 3 * self.third)
        ended = time.time()
        for worker in self.workers:
            worker.say_stop()
        phases = [
            Phase(PHASES[0], self.started, killed, self.started + SETTLE_AT_START),
            Phase(PHASES[1], killed, returned),
            Phase(PHASES[2], returned, ended, returned + SETTLE_AFTER_RETURN),
        ]
        return phases

    async def _watch(self, phase: str, until: float) -> None:
        while (now := time.time()) < until:
            elapsed = now - self.started
            # A Redis that came back empty has a second burst to give.
            bursts = 2 if phase == PHASES[2] else 1
            self.display.show(elapsed, phase, math.floor(RATE * elapsed + BURST * bursts))
            for worker in self.workers:
                if worker.process.returncode is not None:
                    raise RuntimeError(f"{worker.name} ended early, exit code {worker.process.returncode}")
            await asyncio.sleep(min(0.2, until - now))


def judge(phases: Sequence[Phase], workers: Sequence[Worker]) -> bool:
    """Prints a verdict for each phase and what else went wrong; true if all is well."""
    attribute(phases, (admission for worker in workers for admission in worker.admissions))
    well = True
    print()
    for phase in phases:
        holds, text = phase.verdict(RATE, BURST)
        print(text)
        well &= holds
    problems = [failure for worker in workers if (failure := worker.failure())]
    late = [worker for worker in workers if worker.last_redis_decision < phases[2].start]
    problems += [f"{worker.name}: did not use Redis again after its return" for worker in late]
    for problem in problems:
        print("FAIL", problem)
    print(f"longest call {max(worker.longest_ms for worker in workers):.1f} ms")
    return well and not problems


def save(path: Path, phases: Sequence[Phase], workers: Sequence[Worker]) -> None:
    """Every admission as data, for who wants to count in windows of their own."""
    data = {
        "rate": RATE,
        "burst": BURST,
        "phases": [[phase.name, phase.start, phase.end] for phase in phases],
        "admissions": {w.name: [[a.start, a.end, a.source] for a in w.admissions] for w in workers},
    }
    path.write_text(json.dumps(data))


async def run(recipes: Sequence[Recipe], seconds: float, log: Path | None) -> bool:
    async with contextlib.AsyncExitStack() as cleanup:
        redis = cleanup.enter_context(RedisServer())
        workers: list[Worker] = []
        for recipe in recipes:
            workers.append(await Worker.start(recipe, [redis.url, SPEC, str(CALLS_PER_SECOND)]))
            cleanup.push_async_callback(workers[-1].kill)
        readers = asyncio.gather(*(worker.read() for worker in workers))
        print(f"{len(workers)} processes, one limit: {SPEC}", flush=True)
        phases = await Demo(redis, workers, seconds).run()
        await asyncio.wait_for(readers, timeout=15)
        well = judge(phases, workers)
        if log is not None:
            save(log, phases, workers)
        return well


async def run_until_signal(recipes: Sequence[Recipe], seconds: float, log: Path | None) -> bool:
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    return await run(recipes, seconds, log)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the run (15)")
    parser.add_argument("--rust-worker", type=Path, required=True, help="the built example demo_worker")
    parser.add_argument("--log", type=Path, help="write every admission to this JSON file")
    options = parser.parse_args()
    if options.seconds < 9:
        parser.error("--seconds must be 9 or more: a phase needs 3 s to settle and be measured")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as scratch:
            print("installing the wheel, the npm tarball and the C library", flush=True)
            recipes = install(Path(scratch), options.rust_worker.resolve())
            return 0 if asyncio.run(run_until_signal(recipes, options.seconds, options.log)) else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\nstopped; every process was ended", flush=True)
        return 130
    except RuntimeError as error:
        print("FAIL", error, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
