"""What gunicorn serves: each request is one decision. It is loaded, and warm, before the workers fork."""

import json
import os
import time
from collections.abc import Callable, Iterable

import sluicegate

limiter = sluicegate.Limiter(os.environ["LIMITER_URL"], timeout=10.0)
limit = limiter.limit("requests", os.environ["LIMITER_SPEC"])
FIRST = limit.try_acquire("everyone")


def app(_: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    decision = limit.try_acquire("everyone")
    time.sleep(0.005)  # so that the others get requests too
    start_response("200 OK", [("Content-Type", "application/json")])
    answer = {"pid": os.getpid(), "allowed": decision.allowed, "source": decision.source}
    return [json.dumps(answer | {"first": FIRST.source}).encode()]
