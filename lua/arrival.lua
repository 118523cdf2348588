-- What gcra works with: spans of time as whole microseconds and a fraction in units of 1/flow,
-- and how an arrival time is stored. Rust has 128-bit numbers instead.

-- How long it takes to earn so many tokens.
local function span(tokens, p)
  return muldiv(tokens, p[1], p[2])
end

-- The sum, or with sign -1 the difference, floored at zero.
local function add_span(whole, fraction, sign, more, more_fraction, p)
  whole, fraction = whole + sign * more, fraction + sign * more_fraction
  local carry = floor(fraction / p[2])
  whole, fraction = whole + carry, fraction - carry * p[2]
  if whole < 0 then
    return 0, 0
  end
  return whole, fraction
end

local function longer(whole, fraction, most, most_fraction)
  return whole > most or (whole == most and fraction > most_fraction)
end

local function save_arrival(key, whole, fraction, now, p)
  if whole == 0 and fraction == 0 then
    redis.call('DEL', key)
    return 0, 0
  end
  local packed = struct.pack('>I7', now + whole)
  if fraction > 0 then
    packed = packed .. struct.pack('>I4I4', fraction, p[2])
  end
  if longer(whole, fraction, span(p[3], p)) then
    packed = packed .. struct.pack('>I7', now)
  end
  redis.call('SET', key, packed, 'PX', lifetime(whole + (fraction > 0 and 1 or 0)))
  return whole, fraction
end

-- How far the arrival time is ahead of now. A clock that stepped back by more than a full refill is
-- settled for good.
local function load_arrival(key, now, p)
  local packed = redis.call('GET', key)
  if not packed then
    return 0, 0
  end
  local time, fraction, flow, written = struct.unpack('>I7', packed), 0, p[2], nil
  if #packed > 14 then
    fraction, flow = struct.unpack('>I4I4', packed, 8)
  end
  if #packed % 8 == 6 then
    written = struct.unpack('>I7', packed, #packed - 6)
  end
  if flow ~= p[2] then
    local scaled, rest = muldiv(fraction, p[2], flow)
    scaled = scaled + (rest > 0 and 1 or 0)
    time, fraction = time + floor(scaled / p[2]), scaled % p[2]
  end
  local full, full_fraction = span(p[3], p)
  local refill = full + (full_fraction > 0 and 1 or 0)
  if written and written > now + refill then
    return save_arrival(key, time - written, fraction, now, p)
  elseif not written and time > now + 2 * refill then
    return save_arrival(key, full, full_fraction, now, p)
  end
  if time < now then
    return 0, 0
  end
  return time - now, fraction
end
