"""What the rig asks of the Redis that is measured on, and what `redis-benchmark` finds there."""

from __future__ import annotations

import csv
import io
import re
import resource
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from redis_servers import LOOPBACK, RedisServer

SCRIPT_COMMANDS = (
    "cmdstat_eval",
    "cmdstat_evalsha",
    "cmdstat_eval_ro",
    "cmdstat_evalsha_ro",
    "cmdstat_fcall",
)


@dataclass(frozen=True)
class Spent:
    """What Redis has spent so far."""

    scripts: float
    script_us: float
    cpu_us: float

    def since(self, earlier: Spent) -> Spent:
        return Spent(
            self.scripts - earlier.scripts, self.script_us - earlier.script_us, self.cpu_us - earlier.cpu_us
        )


def spent(redis: RedisServer) -> Spent:
    text = redis.command("INFO", "commandstats", "cpu")
    stats = re.findall(r"^(cmdstat_\w+):calls=(\d+),usec=(\d+)", text, re.M)
    of_scripts = [(float(calls), float(usec)) for name, calls, usec in stats if name in SCRIPT_COMMANDS]
    cpu = sum(float(value) for value in re.findall(r"^used_cpu_(?:user|sys):([\d.]+)", text, re.M))
    return Spent(sum(calls for calls, _ in of_scripts), sum(usec for _, usec in of_scripts), cpu * 1e6)


class Monitor:
    """Redis's own record of the commands that it gets."""

    def __init__(self, redis: RedisServer) -> None:
        self._link = socket.create_connection((LOOPBACK, redis.port), timeout=5)
        self._link.sendall(b"MONITOR\r\n")
        self._link.recv(16)

    def close(self) -> list[list[str]]:
        """The commands of clients since it was opened, each as its words."""
        time.sleep(0.1)
        self._link.setblocking(False)
        text = b""
        try:
            while chunk := self._link.recv(1 << 20):
                text += chunk
        except BlockingIOError:
            pass
        self._link.close()
        lines = [line for line in text.decode("latin-1").splitlines() if " lua] " not in line]
        return [re.findall(r'"((?:[^"\\]|\\.)*)"', line) for line in lines]


class Floor:
    """`redis-benchmark` with one connection: what a command costs at least."""

    def __init__(self, redis: RedisServer, command: list[str]) -> None:
        self._redis, self._command, self._rate = redis, command, 10_000.0

    def round(self, seconds: float) -> dict[str, Any]:
        warm = self._run(seconds / 5)
        one = self._run(seconds)
        return one | {"total": warm["total"] + one["total"]}

    def cpu_us(self) -> float:
        """The CPU time of its runs so far, together with what else was run and has ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (used.ru_utime + used.ru_stime) * 1e6

    def _run(self, seconds: float) -> dict[str, Any]:
        calls = max(100, int(self._rate * seconds))
        line = ["redis-benchmark", "-h", LOOPBACK, "-p", str(self._redis.port), "-c", "1", "-n", str(calls)]
        done = subprocess.run(
            [*line, "--csv", *self._command], check=True, capture_output=True, text=True, timeout=300
        )
        row = list(csv.DictReader(io.StringIO(done.stdout)))[-1]
        self._rate = float(row["rps"])
        return {
            "decisions": calls,
            "seconds": calls / self._rate,
            "total": calls,
            "odd": 0,
            "p50_us": float(row["p50_latency_ms"]) * 1000,
            "p99_us": float(row["p99_latency_ms"]) * 1000,
        }
