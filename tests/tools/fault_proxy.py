"""A TCP proxy that breaks on purpose what passes through it, in a process of its own.

with RedisServer() as redis, FaultProxy(redis.port) as proxy:
    Limiter(proxy.url)
    proxy.fault("delay", seconds=0.3)
    proxy.heal()

| fault       | what happens from then on                                                          |
|-------------|------------------------------------------------------------------------------------|
| delay       | replies take `seconds` longer, and requests `requests` seconds                     |
| drop        | every connection is reset, and so is every new one                                 |
| cut         | of every `every` replies one ends in its middle, and the connection with it        |
| black_hole  | what is sent vanishes both ways; new connections are accepted, and silent          |
| refuse      | what is sent vanishes both ways; new connections are refused                       |
| freeze      | nothing passes; what was sent arrives when the fault is healed                     |
| drip        | replies come byte by byte, with `seconds` between them                             |
| garbage     | of every `every` replies one becomes garbage, of any kind or of `kind` (see GARBAGE) |

A fault can be changed at any moment, and is in force when `fault` or `heal` returns. With
`connection=n` it befalls only the connection that was accepted as number n (from 1), whatever the
others do. A connection from which bytes vanished stays silent after it, as no end could make sense of
what follows.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import deque
from types import TracebackType
from typing import Any, cast

from redis_servers import LOOPBACK, die_with_parent, free_port

PASS: dict[str, Any] = {"name": "pass"}
FAULTS = ("delay", "drop", "cut", "black_hole", "refuse", "freeze", "drip", "garbage")
ANSWER_SECONDS = 30.0


class FaultProxy:
    """The proxy's process, seen from a test."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.port), str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}"

    def fault(self, name: str, **options: float | str) -> None:
        """Breaks, from now on, every connection in this way."""
        if name not in FAULTS:
            raise ValueError(f"fault must be one of {', '.join(FAULTS)}, got {name!r}")
        self._say({"name": name, **options})

    def heal(self) -> None:
        """Lets everything pass again."""
        self._say(PASS)

    def connections(self) -> int:
        """How many connections were accepted so far."""
        return self._say(None)

    def _say(self, what: dict[str, Any] | None) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the fault proxy ended, exit code {self._process.wait()}")
        return int(line)

    def __enter__(self) -> FaultProxy:
        try:
            self.connections()
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

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()


class Proxy:
    """All connections, and the fault that is in force."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.fault = PASS
        # Of single connections, by their number.
        self.faults: dict[int, dict[str, Any]] = {}
        self.pairs: set[Pair] = set()
        self.accepted = 0
        self.random = random.Random(0)
        self._listener: asyncio.Server | None = None

    async def listen(self) -> None:
        if self._listener is None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(
                lambda: Pair(self).client, LOOPBACK, self.port, backlog=1024, reuse_address=True
            )

    async def apply(self, fault: dict[str, Any]) -> None:
        if number := fault.get("connection"):
            self.faults[number] = fault
        else:
            self.fault = fault
            self.faults.clear()
        for pair in list(self.pairs):
            pair.changed()
        if number:
            return
        if fault["name"] == "refuse" and self._listener is not None:
            self._listener.close()
            self._listener = None
        if fault["name"] != "refuse":
            await self.listen()


class Pair:
    """A client's connection and ours to the server."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client = End(self)
        self.server = End(self)
        self.client.other, self.server.other = self.server, self.client
        self.number = 0
        self.replies = 0
        # Bytes of it vanished, so nothing that passes now would make sense.
        self.silent = False

    @property
    def fault(self) -> dict[str, Any]:
        return self.proxy.faults.get(self.number, self.proxy.fault)

    def accepted(self) -> None:
        self.proxy.accepted += 1
        self.number = self.proxy.accepted
        self.proxy.pairs.add(self)
        self.changed()
        if not self.silent and self.fault["name"] != "drop":
            self._dialing = asyncio.ensure_future(self._dial())

    async def _dial(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self.server, LOOPBACK, self.proxy.target)
        except OSError:
            self.end()
            return
        if self not in self.proxy.pairs:
            self.end()
        self.changed()

    def changed(self) -> None:
        """Another fault is in force."""
        name = self.fault["name"]
        if name == "drop":
            self.end()
        self.silent |= name in ("black_hole", "refuse")
        for end in (self.client, self.server):
            end.held = name == "freeze"
            end.hurry()

    def end(self) -> None:
        """Resets both connections."""
        self.proxy.pairs.discard(self)
        self.client.abort()
        self.server.abort()

    def passed(self, source: End, data: bytes) -> None:
        if self.silent:
            return
        fault, target = self.fault, source.other
        name = fault["name"]
        if name == "delay":
            target.send(data, fault.get("requests", 0) if source is self.client else fault.get("seconds", 0))
        elif source is self.client or name in ("pass", "freeze"):
            target.send(data)
        else:
            self.replies += 1
            turn = self.replies % int(fault.get("every", 1)) == 0
            if name == "drip":
                for byte in data:
                    target.send(bytes([byte]), fault["seconds"], after_last=True)
            elif name == "cut" and turn:
                target.send(data[: len(data) // 2])
                self.proxy.pairs.discard(self)
                target.close()
                source.abort()
            elif name == "garbage" and turn:
                target.send(garbage(fault.get("kind") or self.proxy.random.choice(GARBAGE), data))
            else:
                target.send(data)


class End(asyncio.Protocol):
    """One of the two connections of a pair; what waits to be sent on it keeps its order."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.other: End = self
        self.held = False
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self is self.pair.client:
            self.pair.accepted()
        self._flush()

    def connection_lost(self, _: Exception | None) -> None:
        if self.pair.silent and self is self.pair.server:
            return  # A hole says nothing of it.
        self.pair.proxy.pairs.discard(self.pair)
        self.other.close()

    def data_received(self, data: bytes) -> None:
        self.pair.passed(self, data)

    def send(self, data: bytes, seconds: float = 0.0, after_last: bool = False) -> None:
        """Sends after so long, counted from now or from what was sent last; never before that."""
        now = asyncio.get_running_loop().time()
        last = self._waiting[-1][0] if self._waiting else now
        due = max(now, last) + seconds if after_last else max(now + seconds, last)
        self._waiting.append((due, data))
        self._flush()

    def hurry(self) -> None:
        """The fault has changed: what still waits has waited long enough."""
        self._waiting = deque((0.0, data) for _, data in self._waiting)
        self._flush()

    def close(self) -> None:
        """Closes when everything was sent."""
        self._closing = True
        self._flush()

    def abort(self) -> None:
        self._closing = True
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        if self._transport is None or self.held:
            return
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time() and not self._transport.is_closing():
            self._transport.write(self._waiting.popleft()[1])
        if self._transport.is_closing():
            self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._flush)
        elif self._closing:
            self._transport.close()


# Well formed or nearly, these put what follows out of step: each later reply would answer another call.
OUT_OF_STEP = ("one more before", "twice", "half", "missing", "other type")
GARBAGE = (
    *("noise", "zeros", "http", "endless text", "endless list", "negative", "nested", "negative zero"),
    *("no list", "too great", "error", *OUT_OF_STEP),
)


def garbage(kind: str, reply: bytes) -> bytes:
    """What no Redis would say instead of this reply."""
    instead = {
        "noise": random.Random(len(reply)).randbytes(len(reply)),
        "zeros": b"\x00" * len(reply),
        "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "endless text": b"$536870911\r\n" + reply,
        "endless list": b"*2147483647\r\n" + reply,
        "negative": b"*-7\r\n$-7\r\n:\r\n",
        "nested": b"*1\r\n" * 5000,
        "negative zero": b":-0\r\n",
        "other type": b"+OK\r\n",
        "no list": b"*0\r\n",
        "too great": b":9007199254740993\r\n",
        "error": b"-ERR \xff\xfe\r\n",
        "one more before": b"+OK\r\n" + reply,
        "twice": reply + reply,
        "half": reply[: len(reply) // 2],
        "missing": b"",
    }
    return instead[kind]


async def main(port: int, target: int) -> None:
    proxy = Proxy(port, target)
    await proxy.listen()
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        if (fault := json.loads(line)) is not None:
            await proxy.apply(fault)
        print(proxy.accepted, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
