"""told.py URL [PREFIX]: for each line of input, one call with that key, and what the status says then."""

import json
import sys

from sluicegate import Limiter

url, *prefix = sys.argv[1:]
with Limiter(url, prefix=(prefix or ["sg"])[0], timeout=1.0, deny_cache=0) as limiter:
    limit = limiter.limit("told", "1000000/s")
    for line in sys.stdin:
        decision = limit.try_acquire(line.strip())
        status = limiter.status()
        told = {"allowed": decision.allowed, "source": decision.source, "state": status.state}
        print(json.dumps({**told, "last_error": status.last_error, "all": repr(status)}), flush=True)
