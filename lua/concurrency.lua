-- Concurrency: at most N permits held at a time; a holder that dies is freed after `ttl`.
-- Twin of core/src/algorithm/concurrency.rs. p: permits, ttl.
-- State: a sorted set of holders by deadline. Loaded: how many are live, and the last deadline.

local function score(time, open)
  return (open and '(' or '') .. string.format('%.0f', time)
end

-- Whether a holder still holds; then who has run out is dropped, as something will change.
local function holds(key, now, holder)
  local deadline = redis.call('ZSCORE', key, holder)
  if not deadline or tonumber(deadline) <= now then
    return false
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', score(now))
  return true
end

rules['concurrency'] = {
  load = function(key, now, p)
    local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
    if not last then
      return 0, now
    end
    local longest = now + p[2]
    if tonumber(last) > longest then
      -- Deadlines further ahead than a ttl come from a clock that stepped back.
      for _, holder in ipairs(redis.call('ZRANGEBYSCORE', key, score(longest, true), '+inf')) do
        redis.call('ZADD', key, score(longest), holder)
      end
      redis.call('PEXPIRE', key, lifetime(p[2]))
      last = longest
    end
    return redis.call('ZCOUNT', key, score(now, true), '+inf'), tonumber(last)
  end,

  fit = function(live, _, _, p, calls, cost)
    return min(calls, floor(max(0, p[1] - live) / cost))
  end,

  save = function(key, live, _, now, p, _, holder)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', score(now))
    redis.call('ZADD', key, score(now + p[2]), holder)
    redis.call('PEXPIRE', key, lifetime(p[2]))
    return live + 1, now + p[2]
  end,

  view = function(live, last, now, p, _, key)
    if live == 0 then
      return p[1], 0, 0
    end
    -- More than the first where a changed spec lowered their number.
    local skip = max(0, live - p[1])
    local next = redis.call('ZRANGEBYSCORE', key, score(now, true), '+inf', 'WITHSCORES', 'LIMIT', skip, 1)
    return max(0, p[1] - live), next[2] - now, last - now
  end,

  renew = function(key, now, p, holder)
    if not holds(key, now, holder) then
      return 0
    end
    redis.call('ZADD', key, score(now + p[2]), holder)
    redis.call('PEXPIRE', key, lifetime(p[2]))
    return 1
  end,

  release = function(key, now, _, holder)
    if not holds(key, now, holder) then
      return 0
    end
    redis.call('ZREM', key, holder)
    return 1
  end,
}
