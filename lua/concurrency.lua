-- Concurrency: at most N permits held at a time; a holder that dies is freed after `ttl`.
-- Twin of core/src/algorithm/concurrency.rs.
-- State: a sorted set of holders by deadline. Loaded: how many are live, and the last deadline.

local function score(time, open)
  return (open and '(' or '') .. string.format('%.0f', time)
end

-- Whether a holder still holds; then who has run out is dropped, as something will change.
local function holds(key, holder)
  local deadline = call('ZSCORE', key, holder)
  if not deadline or tonumber(deadline) <= now then
    return false
  end
  call('ZREMRANGEBYSCORE', key, '-inf', score(now))
  return true
end

rules['concurrency'] = function(permits, ttl)
  local longest = now + ttl

  local function prolong(key, holder)
    call('ZADD', key, score(longest), holder)
    call('PEXPIRE', key, lifetime(ttl))
  end

  local function load(key)
    local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
    if not last then
      return 0, now
    end
    if tonumber(last) > longest then
      -- Deadlines further ahead than a ttl come from a clock that stepped back.
      for _, holder in ipairs(call('ZRANGEBYSCORE', key, score(longest, true), '+inf')) do
        prolong(key, holder)
      end
      last = longest
    end
    return call('ZCOUNT', key, score(now, true), '+inf'), tonumber(last)
  end

  local function fit(live, _, calls, cost)
    return min(calls, floor(max(0, permits - live) / cost))
  end

  local function save(key, live, _, _, holder)
    call('ZREMRANGEBYSCORE', key, '-inf', score(now))
    prolong(key, holder)
    return live + 1, longest
  end

  local function view(live, last, _, key)
    if live == 0 then
      return permits, 0, 0
    end
    -- More than the first where a changed spec lowered their number.
    local skip = max(0, live - permits)
    local next = call('ZRANGEBYSCORE', key, score(now, true), '+inf', 'WITHSCORES', 'LIMIT', skip, 1)
    return max(0, permits - live), next[2] - now, last - now
  end

  local function renew(key, holder)
    if not holds(key, holder) then
      return 0
    end
    prolong(key, holder)
    return 1
  end

  local function release(key, holder)
    if not holds(key, holder) then
      return 0
    end
    call('ZREM', key, holder)
    return 1
  end

  return load, fit, save, view, { renew = renew, release = release }
end
