-- What the token bucket and the leaky bucket share: a level that drains at a constant rate.
-- Twin of core/src/algorithm/bucket.rs. State: debt, time and unit, packed into 20 bytes.

local function save_level(key, debt, time, now, token, flow)
  if debt <= 0 then
    redis.call('DEL', key)
    return 0, time
  end
  local packed = struct.pack('>I7I7I6', debt, time, token)
  redis.call('SET', key, packed, 'PX', lifetime(time - now + ceil(debt / flow)))
  return debt, time
end

-- The debt at `now`, and the time it counts from, which never runs back. A stored time that is
-- ahead by more than a full refill comes from another clock: it is taken as now, for good.
local function load_level(key, now, token, flow, full)
  local packed = redis.call('GET', key)
  if not packed then
    return 0, now
  end
  local debt, time, unit = struct.unpack('>I7I7I6', packed)
  if unit ~= token then
    local tokens = floor(debt / unit)
    local scaled, rest = muldiv(debt - tokens * unit, token, unit)
    debt = min(full, tokens * token + scaled + (rest > 0 and 1 or 0))
  end
  if time - now > ceil(full / flow) then
    return save_level(key, debt, now, now, token, flow)
  elseif time > now then
    return debt, time
  end
  local elapsed = now - time
  return elapsed >= ceil(debt / flow) and 0 or debt - elapsed * flow, now
end

local function view_level(debt, time, now)
  return debt, time - now, 0
end

-- The debt without a turn of so many units, taken when debt and time were as marked, which comes
-- at a debt of `before`. A turn that has come is not given back, nor what others took after it.
local function debt_without(debt, time, flow, units, before, marked_debt, marked_time)
  local drained = max(0, time - marked_time) * flow
  if drained + before >= marked_debt then
    return debt
  end
  return max(0, debt - max(0, units - max(0, debt + drained - marked_debt)))
end
