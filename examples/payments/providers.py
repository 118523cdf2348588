"""Three payment providers that count how often their contracts are broken, on a port of this machine."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from contracts import Contract


class Provider:
    """Takes payments; one over the contract is refused, and never forgotten."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.arrivals: list[float] = []
        self.paid: Counter[int] = Counter()
        self.violations: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def pay(self, payment: int) -> bool:
        """Whether the payment is made; takes its time."""
        with self._lock:
            self.arrivals.append(time.monotonic())
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            broken = self._broken()
            self.violations += broken
        try:
            time.sleep(self.contract.takes)
        finally:
            with self._lock:
                self._at_once -= 1
                if not broken:
                    self.paid[payment] += 1
        return not broken

    def most_within(self, seconds: float) -> int:
        """The most calls that came in any stretch of time of this length."""
        first, most = 0, 0
        for last, at in enumerate(self.arrivals):
            while self.arrivals[first] <= at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most

    def _broken(self) -> list[str]:
        now = self.arrivals[-1]
        broken = []
        for count, seconds in self.contract.rates:
            recent = sum(1 for at in self.arrivals[-count - 1 :] if at > now - seconds)
            if recent > count:
                broken.append(f"{recent} calls in {seconds:g} s, {count} are allowed")
        if self.contract.places is not None and self._at_once > self.contract.places:
            broken.append(f"{self._at_once} calls at once, {self.contract.places} are allowed")
        return broken


class Providers:
    """All of them, while the block runs: POST /cards/17 makes payment 17 at cards."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self.all = {contract.name: Provider(contract) for contract in contracts}
        self._server = _Server(self.all)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Providers:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, providers: dict[str, Provider]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.providers = providers


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        _, name, payment = self.path.split("/")
        paid = self.server.providers[name].pay(int(payment))
        body = json.dumps({"paid": paid}).encode()
        self.send_response(201 if paid else 429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
