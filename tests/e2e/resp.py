"""A bare connection to Redis, for what redis-cli is too slow for or does not show."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

Word = str | int | bytes


def _packed(words: Sequence[Word]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class Resp:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Resp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._replies.close()
        self._socket.close()

    def __call__(self, *words: Word) -> Any:
        """One command; an error that Redis answers with is raised."""
        self._socket.sendall(_packed(words))
        return self._reply()

    def pipeline(self, commands: Iterable[Sequence[Word]], at_once: int = 200) -> list[Any]:
        """Many commands, so many in flight, and their replies."""
        waiting = list(commands)
        replies = []
        for first in range(0, len(waiting), at_once):
            some = waiting[first : first + at_once]
            self._socket.sendall(b"".join(map(_packed, some)))
            replies += [self._reply() for _ in some]
        return replies

    def _reply(self) -> Any:
        line = self._replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._replies.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise RuntimeError(f"Redis: {rest.decode(errors='replace')}" if line else "Redis hung up")
