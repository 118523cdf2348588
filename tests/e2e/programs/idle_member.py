"""idle_member.py URL: joins, prints as what, and stays until the input ends."""

import json
import sys
import time

import sluicegate

with sluicegate.Limiter(sys.argv[1], timeout=5.0) as limiter:
    while (status := limiter.status()).state != "up":
        time.sleep(0.01)
    print(json.dumps({"processes": status.processes, "rank": status.rank}), flush=True)
    sys.stdin.read()
