-- Fixed window: `count` units per window, from the first admitted call or on aligned boundaries.
-- Twin of core/src/algorithm/fixed_window.rs. `shift` is 0 for no alignment, or one more.
-- State: units used, and when the window ends.

local WINDOW = '>I4I7'

rules['fixed-window'] = function(count, period, shift)
  local fresh_end = now + period - (shift > 0 and (now + shift - 1) % period or 0)

  local function write(key, used, ends)
    if used <= 0 then
      call('DEL', key)
      return 0, ends
    end
    call('SET', key, to_bytes(WINDOW, used, ends), 'PX', lifetime(ends - now))
    return used, ends
  end

  local function load(key)
    local packed = call('GET', key)
    if not packed then
      return 0, fresh_end
    end
    local used, ends = from_bytes(WINDOW, packed)
    if ends <= now then
      return 0, fresh_end
    elseif ends - now > 2 * period then
      -- The window began more than a window from now: the clock stepped back.
      return write(key, used, fresh_end)
    end
    return used, ends
  end

  local function fit(used, _, calls, cost)
    local most = (count - used) / cost
    if most < 1 then
      return 0
    end
    return most < calls and most - most % 1 or calls
  end

  local function save(key, used, ends, units)
    return write(key, used + units, ends)
  end

  local function view(used, ends)
    return used, ends - now
  end

  return load, fit, save, view
end
