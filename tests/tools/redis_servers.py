"""Real Redis servers for tests: each on a free loopback port, none left behind.

with RedisServer() as redis:
    Limiter(redis.url)
    redis.kill(); redis.start()      # SIGKILL, then the same port again, empty
    redis.stop(); redis.cont()       # SIGSTOP, SIGCONT

The binary is that of SLUICEGATE_REDIS_SERVER, `redis-server` unless set.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

LOOPBACK = "127.0.0.1"
START_SECONDS = 20.0
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def binary() -> str:
    """The server that tests run on unless they say which."""
    return os.environ.get("SLUICEGATE_REDIS_SERVER", "redis-server")


def version(server: str | None = None) -> str:
    """Which server a binary is, such as `redis 7.0.15`."""
    line = [server or binary(), "--version"]
    text = subprocess.run(line, check=True, capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"(\w+) server v=([\w.]+)", text, re.IGNORECASE)
    if found is None:
        raise RuntimeError(f"{line[0]} --version says {text!r}")
    return f"{found[1].lower()} {found[2]}"


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to clients.

    While a server is down, a client that dials a port of that range can be given the very same
    port as its own and so reach itself.
    """
    for _ in range(1000):
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                return port
    raise RuntimeError("no free port on loopback from 12000 to 32000")


def die_with_parent() -> None:
    """Run in a child between fork and exec: it gets SIGKILL when the thread that made it ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class RedisServer:
    """One redis-server: started on entry, gone on exit, whatever happened between.

    `persist` keeps the data over a restart (append-only file, written with each command);
    `sentinel` makes it one that watches others and keeps no data; `server` is another binary than that
    of all tests; `options` are further arguments of it. The port stays the same over restarts.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        unix_socket: bool = False,
        persist: bool = False,
        sentinel: bool = False,
        server: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._server = server or binary()
        self._fixed_port = port
        self._persist = persist
        self._sentinel = sentinel
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port or free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="sluicegate-redis-"))
        self.unix_socket = self.directory / "redis.sock" if unix_socket else None

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("redis-server is not running")
        return self._process.pid

    def __enter__(self) -> RedisServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server and returns when it answers."""
        if self._process is not None:
            raise RuntimeError("redis-server is already running")
        for attempt in range(3):
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A Ctrl-C on the terminal is for us; we end the server in our own order.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
            if self._answers_in_time():
                return
            self.kill()
            if self._fixed_port is None and attempt < 2:
                self.port = free_port()
        raise RuntimeError(f"redis-server did not start:\n{self.log()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL: what a crash looks like. Returns when the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def restart(self) -> None:
        """Kills the server and starts it on the same port; empty, unless it persists."""
        self.kill()
        # From here on the clients know the port, so it must not move.
        self._fixed_port = self.port
        self.start()

    def stop(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT: goes on where `stop` stopped it."""
        os.kill(self.pid, signal.SIGCONT)

    def command(self, *words: str) -> str:
        """What redis-cli prints for one command, such as `command("SCRIPT", "FLUSH")`."""
        line = ["redis-cli", "-h", LOOPBACK, "-p", str(self.port), *words]
        done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    def log(self) -> str:
        """What the server wrote to its log."""
        try:
            return (self.directory / "redis.log").read_text(errors="replace")
        except FileNotFoundError:
            return "(no log)"

    def close(self) -> None:
        """Ends the server and removes its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self) -> list[str]:
        if self._sentinel:
            # It keeps what it learns in its configuration, which has to be a file.
            file = self.directory / "sentinel.conf"
            if not file.exists():
                settings = [
                    f"port {self.port}",
                    f"bind {LOOPBACK}",
                    f"dir {self.directory}",
                    "logfile redis.log",
                ]
                file.write_text("\n".join([*settings, "daemonize no", ""]))
            return [self._server, str(file), "--sentinel", *self._options]
        line = [self._server, "--bind", LOOPBACK, "--port", str(self.port)]
        line += ["--dir", str(self.directory), "--logfile", "redis.log", "--daemonize", "no", "--save", ""]
        line += (
            ["--appendonly", "yes", "--appendfsync", "always"] if self._persist else ["--appendonly", "no"]
        )
        if self.unix_socket is not None:
            line += ["--unixsocket", str(self.unix_socket)]
        return line + self._options

    def _answers_in_time(self) -> bool:
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            if self._answers():
                return True
            time.sleep(0.02)
        return False

    def _answers(self) -> bool:
        """Whether our server, and not a stranger on its port, answers."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, self.port), timeout=1.0) as link,
        ):
            link.sendall(b"INFO server\r\n")
            text = b""
            while chunk := link.recv(65536):
                text += chunk
                if text.startswith(b"-") or b"process_id:" in text.rpartition(b"\n")[0]:
                    break
            return f"process_id:{self.pid}\r\n".encode() in text
        return False
