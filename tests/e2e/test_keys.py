"""What is left in Redis: every key goes away by itself, and in the end there is none."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

from programs import SOURCES
from redis_servers import RedisServer
from resp import Resp

CALLS = 100_000
# The longest of mixed_calls.py: 3 s to refill, after up to 0.5 s of turns that are taken; a
# process's sign of life lasts as long. Then Redis takes a moment to sweep.
LONGEST_REFILL, SWEEP = 3.5, 2.5

# How many keys there are, the longest time to live in ms, and which keys never expire. A script sees
# all keys at one moment, but PTTL looks at the clock: 0 is a key that ends in this millisecond.
AUDIT = """
local keys, eternal, longest = redis.call('KEYS', '*'), {}, 0
for _, key in ipairs(keys) do
  local ttl = redis.call('PTTL', key)
  longest = math.max(longest, ttl)
  if ttl < 0 then
    eternal[#eternal + 1] = key .. ' ' .. ttl
  end
end
return { #keys, longest, eternal }
"""


def test_every_key_expires(python: Path, redis: RedisServer) -> None:
    seed = random.randrange(2**32)
    line = [str(python), str(SOURCES / "mixed_calls.py"), redis.url, str(CALLS), str(seed)]
    print("seed", seed)
    most = looks = 0
    with Resp(redis.port) as resp, subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 120
            while process.poll() is None:
                assert time.monotonic() < until, "the calls took too long"
                count, longest, eternal = resp("EVAL", AUDIT, 0)
                assert eternal == []
                assert longest <= LONGEST_REFILL * 1000
                most, looks = max(most, count), looks + 1
                time.sleep(0.1)
        finally:
            process.kill()
        ended = time.monotonic()
        assert process.stdout is not None
        assert process.returncode == 0
        made = json.loads(process.stdout.read())
        print(f"{sum(made.values())} calls {made}; up to {most} keys in {looks} looks")
        assert sum(made.values()) == CALLS
        assert len(made) == 8
        assert most > 500
        count, _, eternal = resp("EVAL", AUDIT, 0)
        assert eternal == []

        while resp("DBSIZE") > 0:
            left = resp("EVAL", AUDIT, 0)
            assert time.monotonic() < ended + LONGEST_REFILL + SWEEP, left
            time.sleep(0.1)
        print(f"{count} keys at the end, none {time.monotonic() - ended:.1f} s later")
