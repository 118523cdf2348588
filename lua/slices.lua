-- What the sliding window works with: a grid of slices, and the units in each, newest first.
-- Stored with the period, which is the grid's unit.

local function slice_start(slice, period, buckets)
  local rest = slice % buckets
  return (slice - rest) / buckets * period + ceil(rest * period / buckets)
end

local function slice_at(time, period, buckets)
  local rest = time % period
  return (time - rest) / period * buckets + floor(rest * buckets / period)
end

-- The units when so many slices have passed.
local function shifted(units, passed, buckets)
  if passed == 0 and #units == buckets + 1 then
    return units
  end
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

-- Which of the slices is the newest that holds units.
local function newest_used(units)
  local age = 1
  while units[age] == 0 do
    age = age + 1
  end
  return units[age] and age
end
