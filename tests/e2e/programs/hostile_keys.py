"""hostile_keys.py URL PREFIX: takes once, and once more, for every odd name and key on every algorithm.

Prints one JSON line a limit: [name, [[first admitted, second admitted], ..]], in the order of the keys.
"""

import itertools
import json
import random
import sys

from sluicegate import Limiter

MEGABYTE = 1 << 20
SPECS = [
    "1/366d burst 1",
    "gcra 1/366d burst 1",
    "leaky-bucket 1/366d queue 0",
    "fixed-window 1/366d",
    "sliding-window 1/366d",
    "sliding-log 1/366d",
    "1/366d burst 1; fixed-window 1/366d; sliding-log 1/366d",
]
NAMES = [
    "n",
    "{n}",
    "a:b",
    "*",
    "%7Bn%7D",
    "n#0",
    "' OR 1=1 --",
    "members",
    "🚰",
    "return redis.call('FLUSHALL')",
]
PIECES = [
    "{", "}", "{}", "}{", "%", "%7B", "%h", ":", "#0", "*", "?", "[^k]",
    "\\", '"', "'", " ", "\0", "\n", "\r\n",
    "\r\n*1\r\n$8\r\nFLUSHALL\r\n", "*3\r\n$3\r\nSET\r\n$6\r\ncanary\r\n$1\r\nx\r\n", "$-1\r\n", "]]", "--[[",
    "']) redis.call('FLUSHALL') --", "é", "\u2028", "canary", "sg", "heartbeats", "..", "/",
    "\x7f", "\x1b[2J",
]  # fmt: skip

url, prefix = sys.argv[1:]
rng = random.Random(7)
texts = [*PIECES, *("".join(pair) for pair in itertools.product(PIECES[:12], repeat=2))]
texts += [f"k{piece}k" for piece in PIECES]
keys = {text.encode() for text in texts}
keys |= {rng.randbytes(size) for size in (1, 2, 16, 127, 128, 129, 300) for _ in range(20)}
keys |= {
    b"{" * MEGABYTE,
    b"}" * MEGABYTE,
    b"\r\n" * MEGABYTE,
    b"*" * 128,
    b"%" * 128,
    b"\0" * (64 * MEGABYTE),
}

with Limiter(url, prefix=prefix, timeout=30, on_outage="raise", deny_cache=0) as limiter:
    for name, spec in itertools.product(NAMES, SPECS):
        limit = limiter.limit(name, spec)
        # The large ones take a while, and where they end up is not a matter of the name.
        some = [key for key in sorted(keys) if name == "n" or len(key) < MEGABYTE]
        some = some if name == "n" else some[:: len(NAMES)]
        taken = [[limit.try_acquire(key).allowed, limit.try_acquire(key).allowed] for key in some]
        print(json.dumps([name, taken]))
    seats = limiter.limit("seats", "concurrency 1 ttl 366d")
    held = [seats.hold(key, timeout=0) for key in sorted(keys) if len(key) < MEGABYTE]
    print(json.dumps(["seats", [[permit.decision.allowed, False] for permit in held]]))
    for permit in held[::2]:
        permit.release()
