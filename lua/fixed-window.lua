-- Fixed window: `count` units per window, from the first admitted call or on aligned boundaries.
-- Twin of core/src/algorithm/fixed_window.rs. p: count, period, shift + 1 or 0 for no alignment.
-- State: units used, and when the window ends.

local function window_end(now, p)
  if p[3] == 0 then
    return now + p[2]
  end
  return now + p[2] - (now + p[3] - 1) % p[2]
end

local function write(key, used, ends, now)
  redis.call('SET', key, struct.pack('>I4I7', used, ends), 'PX', lifetime(ends - now))
  return used, ends
end

rules['fixed-window'] = {
  load = function(key, now, p)
    local packed = redis.call('GET', key)
    if not packed then
      return 0, window_end(now, p)
    end
    local used, ends = struct.unpack('>I4I7', packed)
    if ends <= now then
      return 0, window_end(now, p)
    end
    if ends - now > 2 * p[2] then
      -- The window began more than a window from now: the clock stepped back.
      return write(key, used, window_end(now, p), now)
    end
    return used, ends
  end,

  fit = function(used, _, _, p, calls, cost)
    return min(calls, floor(max(0, p[1] - used) / cost))
  end,

  save = function(key, used, ends, now, _, units)
    used = used + units
    if used <= 0 then
      redis.call('DEL', key)
      return 0, ends
    end
    return write(key, used, ends, now)
  end,

  view = function(used, ends, now)
    return used, ends - now, 0
  end,
}
