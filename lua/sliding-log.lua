-- Sliding log: exact, every admission is remembered.
-- Twin of core/src/algorithm/sliding_log.rs. p: count, period.
-- State: a list, oldest first, of (time, running total modulo 2^32) in 11 bytes. The first entry
-- has expired and holds the total before the window, so a window's sum is a difference of two
-- totals. Searches gallop from the oldest entry, so what is near the front is found at once.

local function entry(key, index)
  return struct.unpack('>I7I4', redis.call('LINDEX', key, index))
end

-- The first index from `low` up to `high` whose entry satisfies `found`; `high` where none does.
local function search(key, low, high, found)
  local step, top = 1, low
  while top < high and not found(entry(key, top)) do
    low, top, step = top + 1, top + step, step * 2
  end
  top = min(top, high)
  while low < top do
    local middle = floor((low + top) / 2)
    if found(entry(key, middle)) then
      top = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function push(key, time, sum)
  redis.call('RPUSH', key, struct.pack('>I7I4', time, sum % 2 ^ 32))
end

local function used(log)
  return (log.sum - log.base) % 2 ^ 32
end

local function expire(key, log, now, p)
  redis.call('PEXPIRE', key, lifetime(log.last + p[2] - now))
  return log
end

-- A log of one entry.
local function begin(key, now, p, units)
  redis.call('DEL', key)
  push(key, 0, 0)
  push(key, now, units)
  return expire(key, { first = 1, length = 2, base = 0, sum = units, last = now }, now, p)
end

-- The log of a key as of now: where it begins, its length, the totals at both ends, its last time.
local function log_at(key, now, p)
  local length = redis.call('LLEN', key)
  if length == 0 then
    return { first = 0, length = 0, base = 0, sum = 0, last = 0 }
  end
  local last, sum = entry(key, -1)
  if last + p[2] <= now then
    return { first = length, length = length, base = sum, sum = sum, last = last }
  elseif last > now + p[2] then
    -- The clock stepped back by more than a window: all of it counts as used now, for good.
    local _, base = entry(key, 0)
    return begin(key, now, p, (sum - base) % 2 ^ 32)
  end
  local first = search(key, 1, length, function(time)
    return time + p[2] > now
  end)
  local _, base = entry(key, first - 1)
  return { first = first, length = length, base = base, sum = sum, last = last }
end

local function give(key, log, now, p, units)
  local keep = used(log) - units
  if keep <= 0 then
    redis.call('DEL', key)
    return { first = 0, length = 0, base = 0, sum = 0, last = 0 }
  end
  local index = search(key, log.first, log.length, function(_, sum)
    return (sum - log.base) % 2 ^ 32 >= keep
  end)
  local last = entry(key, index)
  redis.call('LTRIM', key, log.first - 1, index)
  redis.call('LSET', key, -1, struct.pack('>I7I4', last, (log.base + keep) % 2 ^ 32))
  local kept = { first = 1, length = index - log.first + 2, base = log.base, sum = log.base + keep, last = last }
  return expire(key, kept, now, p)
end

rules['sliding-log'] = {
  load = log_at,

  fit = function(log, _, _, p, calls, cost)
    return min(calls, floor(max(0, p[1] - used(log)) / cost))
  end,

  save = function(key, log, _, now, p, units)
    if units < 0 then
      return give(key, log, now, p, -units)
    elseif used(log) == 0 then
      return begin(key, now, p, units)
    end
    if log.first > 1 then
      redis.call('LTRIM', key, log.first - 1, -1)
      log.first, log.length = 1, log.length - log.first + 1
    end
    log.sum = log.sum + units
    if log.last >= now then
      redis.call('LSET', key, -1, struct.pack('>I7I4', log.last, log.sum % 2 ^ 32))
    else
      log.last, log.length = now, log.length + 1
      push(key, now, log.sum)
    end
    return expire(key, log, now, p)
  end,

  view = function(log, _, now, p, cost, key)
    local left, retry_after = max(0, p[1] - used(log)), 0
    local missing = cost > p[1] and 0 or max(0, used(log) + cost - p[1])
    if missing > 0 then
      local index = search(key, log.first, log.length, function(_, sum)
        return (sum - log.base) % 2 ^ 32 >= missing
      end)
      retry_after = entry(key, index) + p[2] - now
    end
    return left, retry_after, used(log) > 0 and log.last + p[2] - now or 0
  end,
}
