"""Runs a command beside a Redis of its own, and exits with the command's code.

    python tests/tools/with_redis.py -- cargo test --workspace

The command finds the server in SLUICEGATE_TEST_REDIS.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from redis_servers import RedisServer, die_with_parent


def end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    with RedisServer() as redis:
        env = {**os.environ, "SLUICEGATE_TEST_REDIS": redis.url}
        process = subprocess.Popen(command, env=env, preexec_fn=die_with_parent)
        try:
            code = process.wait()
        except SystemExit:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
