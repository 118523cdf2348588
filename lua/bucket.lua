-- What the token bucket and the leaky bucket share: a level that drains at a constant rate.
-- Twin of core/src/algorithm/bucket.rs. State: debt, time and unit, packed into 20 bytes.

local LEVEL = '>I7I7I6'

-- How to load, save and view a level that is `full` at most, and how to give back a turn, which comes
-- at a debt of `turn`; where that is not said, at its own cost.
local function level(token, flow, full, turn)
  local refill = ceil(full / flow)

  local function write(key, debt, time)
    if debt <= 0 then
      call('DEL', key)
      return 0, time
    end
    call('SET', key, to_bytes(LEVEL, debt, time, token), 'PX', lifetime(time - now + debt / flow))
    return debt, time
  end

  -- The debt as of now, and the time it counts from, which never runs back. A stored time that is
  -- ahead by more than a full refill comes from another clock: it is taken as now, for good.
  local function load(key)
    local packed = call('GET', key)
    if not packed then
      return 0, now
    end
    local debt, time, unit = from_bytes(LEVEL, packed)
    if unit ~= token then
      local tokens = floor(debt / unit)
      local scaled, rest = muldiv(debt - tokens * unit, token, unit)
      debt = min(full, tokens * token + scaled + (rest > 0 and 1 or 0))
    end
    if time > now then
      if time - now > refill then
        return write(key, debt, now)
      end
      return debt, time
    end
    debt = debt - (now - time) * flow
    return debt > 0 and debt or 0, now
  end

  local function save(key, debt, time, units)
    return write(key, debt + units * token, time)
  end

  local function view(debt, time)
    return debt, time - now
  end

  -- Gives back a turn that was taken when debt and time were as marked. One that has come is not
  -- given back, nor what others took after it.
  local function cancel(key, debt, time, cost, marked_debt, marked_time)
    local units, drained = cost * token, max(0, time - marked_time) * flow
    local back = min(debt, units - max(0, debt + drained - marked_debt))
    if drained + (turn or units) >= marked_debt or back <= 0 then
      return debt, time
    end
    return write(key, debt - back, time)
  end

  return load, save, view, { cancel = cancel }
end
