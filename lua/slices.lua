-- What the sliding window works with: a grid of slices, and the units in each, newest first.
-- p: count, period, buckets. Stored with the period, which is the grid's unit.

local function slice_start(slice, p)
  local periods = floor(slice / p[3])
  return periods * p[2] + ceil((slice - periods * p[3]) * p[2] / p[3])
end

local function slice_at(time, period, buckets)
  return floor(time / period) * buckets + floor(time % period * buckets / period)
end

-- The units when so many slices have passed.
local function shifted(units, passed, buckets)
  local later = {}
  for age = 1, buckets + 1 do
    later[age] = units[age - passed] or 0
  end
  return later
end

local function total(units)
  local sum = 0
  for age = 1, #units do
    sum = sum + units[age]
  end
  return sum
end

local function save_slices(key, units, newest, now, p)
  local used = 1
  while units[used] == 0 do
    used = used + 1
  end
  if not units[used] then
    redis.call('DEL', key)
  else
    local packed = struct.pack('>I6I7' .. ('I4'):rep(#units), p[2], newest, unpack(units))
    redis.call('SET', key, packed, 'PX', lifetime(slice_start(newest + p[3] + 2 - used, p) - now))
  end
  return units, newest
end
