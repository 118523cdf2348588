-- What the sliding log works with: a list, oldest first, of (time, running total modulo 2^32) in
-- 11 bytes. The first entry has expired and holds the total before the window, so a window's sum
-- is a difference of two totals. Searches gallop from their lowest entry, so what is near it is
-- found at once; what is far from it, in about as many steps as bisection would take.

local ENTRY = '>I7I4'

local function entry_at(key, index)
  return from_bytes(ENTRY, call('LINDEX', key, index))
end

-- The first index from `low` up to `high` whose entry satisfies `found`; `high` where none does.
local function search_log(key, low, high, found)
  local step, top = 1, low
  while top < high and not found(entry_at(key, top)) do
    low, top, step = top + 1, top + step, step * 8
  end
  top = min(top, high)
  while low < top do
    local middle = floor((low + top) / 2)
    if found(entry_at(key, middle)) then
      top = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function push_entry(key, time, sum)
  call('RPUSH', key, to_bytes(ENTRY, time, sum % 2 ^ 32))
end

local function log_used(log)
  return (log.sum - log.base) % 2 ^ 32
end

local function expire_log(key, log, period)
  call('PEXPIRE', key, lifetime(log.last + period - now))
  return log
end

-- A log of one entry.
local function begin_log(key, period, units)
  call('DEL', key)
  push_entry(key, 0, 0)
  push_entry(key, now, units)
  return expire_log(key, { first = 1, length = 2, base = 0, sum = units, last = now }, period)
end

-- The log of a key as of now: where it begins, its length, the totals at both ends, its last time.
local function log_at(key, period)
  local length = call('LLEN', key)
  if length == 0 then
    return { first = 0, length = 0, base = 0, sum = 0, last = 0 }
  end
  local last, sum = entry_at(key, -1)
  if last + period <= now then
    return { first = length, length = length, base = sum, sum = sum, last = last }
  elseif last > now + period then
    -- The clock stepped back by more than a window: all of it counts as used now, for good.
    local _, base = entry_at(key, 0)
    return begin_log(key, period, (sum - base) % 2 ^ 32)
  end
  local first = search_log(key, 1, length, function(time)
    return time + period > now
  end)
  local _, base = entry_at(key, first - 1)
  return { first = first, length = length, base = base, sum = sum, last = last }
end

local function give_back(key, log, period, units)
  local keep = log_used(log) - units
  if keep <= 0 then
    call('DEL', key)
    return { first = 0, length = 0, base = 0, sum = 0, last = 0 }
  end
  -- An entry holds a unit at least, so no more than `units` of them go.
  local low = max(log.first, log.length - 1 - units)
  local index = search_log(key, low, log.length, function(_, sum)
    return (sum - log.base) % 2 ^ 32 >= keep
  end)
  local last = entry_at(key, index)
  call('LTRIM', key, log.first - 1, index)
  call('LSET', key, -1, to_bytes(ENTRY, last, (log.base + keep) % 2 ^ 32))
  local kept = { first = 1, length = index - log.first + 2, base = log.base, sum = log.base + keep, last = last }
  return expire_log(key, kept, period)
end
