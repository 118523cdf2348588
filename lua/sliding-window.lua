-- Sliding window in slices: never more than `count` units in any window, however it is placed.
-- Twin of core/src/algorithm/sliding_window.rs.
-- State: the newest slice's number on the grid, and the units of it and of the `buckets` slices
-- before it, newest first. Stored with the period, which is the grid's unit.

rules['sliding-window'] = function(count, period, buckets)
  local current = slice_at(now, period, buckets)
  local numbers = ('I4'):rep(buckets + 1)
  local format, of_units, size = '>I6I7' .. numbers, '>' .. numbers, 13 + 4 * (buckets + 1)

  -- When the slice of this age leaves the last window that counts it.
  local function leaves(newest, age)
    return slice_start(newest + buckets + 2 - age, period, buckets) - now
  end

  local function write(key, units, newest)
    local age = newest_used(units)
    if age then
      local packed = to_bytes(format, period, newest, unpack(units))
      call('SET', key, packed, 'PX', lifetime(leaves(newest, age)))
    else
      call('DEL', key)
    end
    return units, newest
  end

  -- All that has not left the window on the grid on which it was counted is taken as used now: on
  -- another grid, or when a clock stepped back.
  local function settle(key, units, newest, was_period, was_buckets)
    local passed = max(0, slice_at(now, was_period, was_buckets) - newest)
    local used = total(shifted(units, passed, was_buckets))
    units = shifted({ used }, 0, buckets)
    if used > 0 then
      write(key, units, current)
    end
    return units, current
  end

  local function load(key)
    local packed = call('GET', key)
    if not packed then
      return shifted({}, 0, buckets), current
    end
    local was_period, newest = from_bytes('>I6I7', packed)
    if #packed ~= size then
      local was_buckets = (#packed - 13) / 4 - 1
      local units = { from_bytes('>' .. ('I4'):rep(was_buckets + 1), packed, 14) }
      units[#units] = nil
      return settle(key, units, newest, was_period, was_buckets)
    end
    local units = { from_bytes(of_units, packed, 14) }
    -- Behind the numbers comes where they end.
    units[#units] = nil
    if was_period ~= period or newest - current > buckets then
      return settle(key, units, newest, was_period, buckets)
    elseif newest >= current then
      return units, newest
    end
    return shifted(units, current - newest, buckets), current
  end

  local function fit(units, _, calls, cost)
    return min(calls, floor(max(0, count - total(units)) / cost))
  end

  local function save(key, units, newest, more)
    units[1] = units[1] + max(0, more)
    local back, age = max(0, -more), 1
    while back > 0 and age <= #units do
      local taken = min(back, units[age])
      units[age], back, age = units[age] - taken, back - taken, age + 1
    end
    return write(key, units, newest)
  end

  local function view(units, newest, cost)
    local used, age = total(units), newest_used(units)
    local missing, retry_after, oldest = used + cost - count, 0, #units
    if cost <= count and missing > 0 then
      while missing > units[oldest] do
        missing, oldest = missing - units[oldest], oldest - 1
      end
      retry_after = leaves(newest, oldest)
    end
    return max(0, count - used), retry_after, age and leaves(newest, age) or 0
  end

  return load, fit, save, view
end
