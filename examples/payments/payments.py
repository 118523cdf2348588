"""Workers that make payments at three providers, together within what each provider allows.

    make payments

Prints a table, and what contracts were broken. The exit code is 0 if every payment was made, once, and no
provider saw too many calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import artefacts
from contracts import CONTRACTS, MOST_WORKERS
from providers import Provider, Providers
from redis_servers import RedisServer, die_with_parent

WORKER = Path(__file__).resolve().with_name("worker.py")
REQUIREMENTS = WORKER.with_name("requirements.txt")
LONGEST_S = 180.0

# What a worker did at each provider.
Done = dict[str, Counter[str]]


def pay(python: Path, store: str, providers: str, workers: int, payments: int) -> list[Done]:
    """Hands out the payments among the workers, and waits for all to be made."""
    with contextlib.ExitStack() as cleanup:
        running = []
        for worker in range(workers):
            mine = range(worker, payments, workers)
            process = start([python, WORKER, store, providers], mine)
            cleanup.callback(process.wait)
            cleanup.callback(process.kill)
            running.append(process)
        return [done(process) for process in running]


def start(line: Sequence[str | Path], payments: Sequence[int]) -> subprocess.Popen[str]:
    """A worker that is to make these payments at each provider."""
    with tempfile.TemporaryFile("w+") as queue:
        queue.writelines(f"{contract.name} {number}\n" for number in payments for contract in CONTRACTS)
        queue.seek(0)
        return subprocess.Popen(
            line, stdin=queue, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )


def done(process: subprocess.Popen[str]) -> Done:
    output, _ = process.communicate(timeout=LONGEST_S)
    if process.returncode != 0:
        raise RuntimeError(f"a worker ended with exit code {process.returncode}")
    return {name: Counter(counts) for name, counts in json.loads(output).items()}


def report(providers: Sequence[Provider], workers: Sequence[Done], payments: int) -> bool:
    """Prints the table; true if all is well."""
    print(
        f"\n{'provider':<10} {'paid':>5} {'put back':>9} {'in':>7} {'most in 1 s':>12} {'at once':>8}  broken"
    )
    for provider in providers:
        name, arrivals = provider.contract.name, provider.arrivals
        put_back = sum(worker[name]["put back"] for worker in workers)
        lasted = arrivals[-1] - arrivals[0] if arrivals else 0.0
        print(
            f"{name:<10} {provider.paid.total():>5} {put_back:>9} {lasted:>5.1f} s"
            f" {provider.most_within(1.0):>12} {provider.most_at_once:>8}  {len(provider.violations)}"
        )
    for provider in providers:
        for violation in provider.violations[:3]:
            print(f"CONTRACT BROKEN at {provider.contract.name}: {violation}")
    once = Counter(range(payments))
    return all(provider.paid == once and not provider.violations for provider in providers)


def write_log(path: Path, providers: Sequence[Provider]) -> None:
    seen = {
        each.contract.name: {
            "arrivals": each.arrivals,
            "paid": dict(each.paid),
            "at_once": each.most_at_once,
            "violations": each.violations,
        }
        for each in providers
    }
    path.write_text(json.dumps(seen))


@contextlib.contextmanager
def store(url: str | None) -> Iterator[str]:
    """Where the limits are: a Redis of our own unless said."""
    if url is not None:
        yield url
        return
    with RedisServer() as redis:
        yield redis.url


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--payments", type=int, default=80, help="to make at each provider (80)")
    parser.add_argument(
        "--workers", type=int, default=MOST_WORKERS, choices=range(1, MOST_WORKERS + 1), help="processes"
    )
    parser.add_argument("--store", help="URL of the limits; a Redis that is started for it unless said")
    parser.add_argument("--python", type=Path, help="an interpreter with sluicegate and httpx")
    parser.add_argument("--log", type=Path, help="write what the providers saw to this JSON file")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        python = options.python
        if python is None:
            print("installing the wheel and httpx", flush=True)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-payments-")))
            python = artefacts.python_env(scratch / "venv", f"--requirement={REQUIREMENTS}")
        url = stack.enter_context(store(options.store))
        providers = stack.enter_context(Providers(CONTRACTS))
        print(f"{options.workers} workers, {options.payments} payments at each provider", flush=True)
        workers = pay(python, url, providers.url, options.workers, options.payments)
    seen = list(providers.all.values())
    if options.log is not None:
        write_log(options.log, seen)
    return 0 if report(seen, workers, options.payments) else 1


if __name__ == "__main__":
    sys.exit(main())
