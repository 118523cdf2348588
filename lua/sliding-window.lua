-- Sliding window in slices: never more than `count` units in any window, however it is placed.
-- Twin of core/src/algorithm/sliding_window.rs. p: count, period, buckets.
-- State: the newest slice's number on the grid, and the units of it and of the `buckets` slices
-- before it, newest first. Stored with the period, which is the grid's unit.

local function start(slice, p)
  local periods = floor(slice / p[3])
  return periods * p[2] + ceil((slice - periods * p[3]) * p[2] / p[3])
end

local function total(units)
  local sum = 0
  for age = 1, #units do
    sum = sum + units[age]
  end
  return sum
end

local function write(key, units, newest, now, p)
  local used = 1
  while units[used] == 0 do
    used = used + 1
  end
  if not units[used] then
    redis.call('DEL', key)
  else
    local packed = struct.pack('>I6I7' .. ('I4'):rep(#units), p[2], newest, unpack(units))
    redis.call('SET', key, packed, 'PX', lifetime(start(newest + p[3] + 2 - used, p) - now))
  end
  return units, newest
end

rules['sliding-window'] = {
  load = function(key, now, p)
    local slots = p[3] + 1
    local slice = floor(now / p[2]) * p[3] + floor(now % p[2] * p[3] / p[2])
    local newest, old, period = slice, {}, p[2]
    local packed = redis.call('GET', key)
    if packed then
      period, newest = struct.unpack('>I6I7', packed)
      old = { struct.unpack('>' .. ('I4'):rep((#packed - 13) / 4), packed, 14) }
      old[#old] = nil
    end
    local units = {}
    if packed and (period ~= p[2] or #old ~= slots) then
      newest, old = slice, { total(old) }
    end
    local stepped = newest - slice > p[3]
    newest = stepped and slice or newest
    local passed = max(0, slice - newest)
    for age = 1, slots do
      units[age] = old[age - passed] or 0
    end
    if stepped then
      -- The clock stepped back by more than a window.
      return write(key, units, newest, now, p)
    end
    return units, max(newest, slice)
  end,

  fit = function(units, _, _, p, calls, cost)
    return min(calls, floor(max(0, p[1] - total(units)) / cost))
  end,

  save = function(key, units, newest, now, p, more)
    units[1] = units[1] + max(0, more)
    local back = max(0, -more)
    for age = 1, #units do
      local taken = min(back, units[age])
      units[age], back = units[age] - taken, back - taken
    end
    return write(key, units, newest, now, p)
  end,

  view = function(units, newest, now, p, cost)
    local left, retry_after, reset_after = max(0, p[1] - total(units)), 0, 0
    local missing = cost > p[1] and 0 or max(0, cost - left)
    for age = #units, 1, -1 do
      local leaves = start(newest + p[3] + 2 - age, p) - now
      retry_after = missing > 0 and leaves or retry_after
      reset_after = units[age] > 0 and leaves or reset_after
      missing = max(0, missing - units[age])
    end
    return left, retry_after, reset_after
  end,
}
