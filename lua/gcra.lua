-- Generic cell rate algorithm: the token bucket's decisions, kept as one arrival time.
-- Twin of core/src/algorithm/gcra.rs. p: token, flow, burst, wait (in microseconds).
-- State: how far the arrival time is ahead of now, as whole microseconds and a fraction in
-- units of 1/flow. Stored: the arrival time; the fraction and flow where there is a fraction;
-- the time of writing where somebody waits, as the arrival time is then far ahead by right.

local function span(tokens, p)
  return muldiv(tokens, p[1], p[2])
end

-- The sum, or with sign -1 the difference, floored at zero.
local function add(whole, fraction, sign, more, more_fraction, p)
  whole, fraction = whole + sign * more, fraction + sign * more_fraction
  local carry = floor(fraction / p[2])
  whole, fraction = whole + carry, fraction - carry * p[2]
  if whole < 0 then
    return 0, 0
  end
  return whole, fraction
end

local function above(whole, fraction, most, most_fraction)
  return whole > most or (whole == most and fraction > most_fraction)
end

local function write(key, whole, fraction, now, p)
  if whole == 0 and fraction == 0 then
    redis.call('DEL', key)
    return 0, 0
  end
  local packed = struct.pack('>I7', now + whole)
  if fraction > 0 then
    packed = packed .. struct.pack('>I4I4', fraction, p[2])
  end
  if above(whole, fraction, span(p[3], p)) then
    packed = packed .. struct.pack('>I7', now)
  end
  redis.call('SET', key, packed, 'PX', lifetime(whole + (fraction > 0 and 1 or 0)))
  return whole, fraction
end

rules['gcra'] = {
  load = function(key, now, p)
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
      return write(key, time - written, fraction, now, p)
    elseif not written and time > now + 2 * refill then
      return write(key, full, full_fraction, now, p)
    end
    if time < now then
      return 0, 0
    end
    return time - now, fraction
  end,

  -- The largest number of calls that fit, by halving.
  fit = function(whole, fraction, _, p, calls, cost)
    local most, most_fraction = span(p[3], p)
    local low, high = 0, cost > p[3] and 0 or calls
    while low < high do
      local middle = ceil((low + high) / 2)
      local more, more_fraction = span(middle * cost, p)
      local after, after_fraction = add(whole, fraction, 1, more, more_fraction, p)
      if above(after, after_fraction, most + p[4], most_fraction) then
        high = middle - 1
      else
        low = middle
      end
    end
    return low
  end,

  save = function(key, whole, fraction, now, p, units)
    local sign = units < 0 and -1 or 1
    local more, more_fraction = span(sign * units, p)
    whole, fraction = add(whole, fraction, sign, more, more_fraction, p)
    return write(key, whole, fraction, now, p)
  end,

  view = function(whole, fraction)
    return whole, fraction, 0
  end,

  -- A turn that has come is not given back, nor what others took after it.
  cancel = function(key, whole, fraction, now, p, cost, marked, marked_fraction)
    local own = marked - now
    if not above(own, marked_fraction, span(p[3], p)) then
      return whole, fraction
    end
    local later, later_fraction = add(whole, fraction, -1, own, marked_fraction, p)
    local back, back_fraction = span(cost, p)
    back, back_fraction = add(back, back_fraction, -1, later, later_fraction, p)
    if back == 0 and back_fraction == 0 then
      return whole, fraction
    end
    whole, fraction = add(whole, fraction, -1, back, back_fraction, p)
    return write(key, whole, fraction, now, p)
  end,
}
