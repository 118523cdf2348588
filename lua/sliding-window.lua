-- Sliding window in slices: never more than `count` units in any window, however it is placed.
-- Twin of core/src/algorithm/sliding_window.rs. p: count, period, buckets.
-- State: the newest slice's number on the grid, and the units of it and of the `buckets` slices
-- before it, newest first. Stored with the period, which is the grid's unit.

rules['sliding-window'] = {
  load = function(key, now, p)
    local packed = redis.call('GET', key)
    if not packed then
      return shifted({}, 0, p[3]), slice_at(now, p[2], p[3])
    end
    local period, newest = struct.unpack('>I6I7', packed)
    local units = { struct.unpack('>' .. ('I4'):rep((#packed - 13) / 4), packed, 14) }
    units[#units] = nil
    local buckets = #units - 1
    -- What has left the window is gone, on the grid on which it was counted.
    local slice = slice_at(now, period, buckets)
    units, newest = shifted(units, max(0, slice - newest), buckets), max(newest, slice)
    if period == p[2] and buckets == p[3] and newest - slice <= buckets then
      return units, newest
    end
    -- Another grid, or a clock that stepped back: all that counts is taken as used now, for good.
    local used = total(units)
    units, newest = shifted({ used }, 0, p[3]), slice_at(now, p[2], p[3])
    if used > 0 then
      save_slices(key, units, newest, now, p)
    end
    return units, newest
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
    return save_slices(key, units, newest, now, p)
  end,

  view = function(units, newest, now, p, cost)
    local left, retry_after, reset_after = max(0, p[1] - total(units)), 0, 0
    local missing = cost > p[1] and 0 or max(0, total(units) + cost - p[1])
    for age = #units, 1, -1 do
      local leaves = slice_start(newest + p[3] + 2 - age, p) - now
      retry_after = missing > 0 and leaves or retry_after
      reset_after = units[age] > 0 and leaves or reset_after
      missing = max(0, missing - units[age])
    end
    return left, retry_after, reset_after
  end,
}
