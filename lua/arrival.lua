-- What gcra works with: spans of time as whole microseconds and a fraction in units of 1/flow,
-- and how an arrival time is stored. Rust has 128-bit numbers instead.

local function longer(whole, fraction, most, most_fraction)
  return whole > most or (whole == most and fraction > most_fraction)
end

-- The sum, or with sign -1 the difference, floored at zero.
local function add_span(whole, fraction, sign, more, more_fraction, flow)
  whole, fraction = whole + sign * more, fraction + sign * more_fraction
  if fraction >= flow then
    whole, fraction = whole + 1, fraction - flow
  elseif fraction < 0 then
    whole, fraction = whole - 1, fraction + flow
  end
  if whole < 0 then
    return 0, 0
  end
  return whole, fraction
end

-- How to load and write an arrival time that is ahead of now by `full` at most, unless somebody waits.
local function arrival(flow, full, full_fraction)
  local refill = full + (full_fraction > 0 and 1 or 0)

  local function write(key, whole, fraction)
    if whole == 0 and fraction == 0 then
      call('DEL', key)
      return 0, 0
    end
    local packed = to_bytes('>I7', now + whole)
    if fraction > 0 then
      packed = packed .. to_bytes('>I4I4', fraction, flow)
    end
    if longer(whole, fraction, full, full_fraction) then
      packed = packed .. to_bytes('>I7', now)
    end
    call('SET', key, packed, 'PX', lifetime(whole + (fraction > 0 and 1 or 0)))
    return whole, fraction
  end

  -- How far the arrival time is ahead of now. A clock that stepped back by more than a full refill
  -- is settled for good.
  local function load(key)
    local packed = call('GET', key)
    if not packed then
      return 0, 0
    end
    local time, fraction, written = from_bytes('>I7', packed), 0, nil
    if #packed > 14 then
      local unit
      fraction, unit = from_bytes('>I4I4', packed, 8)
      if unit ~= flow then
        local scaled, rest = muldiv(fraction, flow, unit)
        scaled = scaled + (rest > 0 and 1 or 0)
        time, fraction = time + floor(scaled / flow), scaled % flow
      end
    end
    if #packed % 8 == 6 then
      written = from_bytes('>I7', packed, #packed - 6)
    end
    if written and written > now + refill then
      return write(key, time - written, fraction)
    elseif not written and time > now + 2 * refill then
      return write(key, full, full_fraction)
    elseif time < now then
      return 0, 0
    end
    return time - now, fraction
  end

  return load, write
end
