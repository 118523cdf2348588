-- One sign of life of a process that shares limits, or its leaving.
-- KEYS: processes by arrival, the same by when their last sign of life ends. ARGV: the process's id,
-- how long this one lasts in microseconds, "join" or "leave".
-- Reply: how many processes live, and this one's rank among them, from 0.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local id, lifetime = ARGV[1], tonumber(ARGV[2])
-- Each by its own: a newcomer does not know yet how seldom a large fleet shows signs of life.
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)
if ARGV[3] == 'leave' then
  gone[#gone + 1] = id
end
for _, process in ipairs(gone) do
  redis.call('ZREM', KEYS[1], process)
  redis.call('ZREM', KEYS[2], process)
end
if ARGV[3] == 'join' then
  local arrived = redis.call('ZSCORE', KEYS[1], id)
  redis.call('ZADD', KEYS[1], arrived or string.format('%.0f', now), id)
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + lifetime), id)
  local ms = math.ceil(lifetime / 1000)
  for _, key in ipairs(KEYS) do
    if redis.call('PTTL', key) < ms then
      redis.call('PEXPIRE', key, ms)
    end
  end
end
return { redis.call('ZCARD', KEYS[1]), redis.call('ZRANK', KEYS[1], id) or 0 }
