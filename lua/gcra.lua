-- Generic cell rate algorithm: the token bucket's decisions, kept as one arrival time.
-- Twin of core/src/algorithm/gcra.rs; `wait` is in microseconds.
-- State: how far the arrival time is ahead of now, as whole microseconds and a fraction in
-- units of 1/flow. Stored: the arrival time; the fraction and flow where there is a fraction;
-- the time of writing where somebody waits, as the arrival time is then far ahead by right.

rules['gcra'] = function(token, flow, burst, wait)
  -- How long it takes to earn so many tokens.
  local function span(tokens)
    return muldiv(tokens, token, flow)
  end

  local full, full_fraction = span(burst)
  local load, write = arrival(flow, full, full_fraction)

  local function fits(whole, fraction, units)
    local more, more_fraction = span(units)
    whole, fraction = add_span(whole, fraction, 1, more, more_fraction, flow)
    return not longer(whole, fraction, full + wait, full_fraction)
  end

  -- All calls, or the largest number of them that fits, by halving.
  local function fit(whole, fraction, calls, cost)
    if cost > burst then
      return 0
    elseif fits(whole, fraction, calls * cost) then
      return calls
    end
    local low, high = 0, calls - 1
    while low < high do
      local middle = ceil((low + high) / 2)
      if fits(whole, fraction, middle * cost) then
        low = middle
      else
        high = middle - 1
      end
    end
    return low
  end

  local function save(key, whole, fraction, units)
    local sign = units < 0 and -1 or 1
    local more, more_fraction = span(sign * units)
    return write(key, add_span(whole, fraction, sign, more, more_fraction, flow))
  end

  local function view(whole, fraction)
    return whole, fraction
  end

  -- A turn that has come is not given back, nor what others took after it.
  local function cancel(key, whole, fraction, cost, marked, marked_fraction)
    local own = marked - now
    if not longer(own, marked_fraction, full, full_fraction) then
      return whole, fraction
    end
    local later, later_fraction = add_span(whole, fraction, -1, own, marked_fraction, flow)
    local back, back_fraction = span(cost)
    back, back_fraction = add_span(back, back_fraction, -1, later, later_fraction, flow)
    if back + back_fraction == 0 or whole + fraction == 0 then
      return whole, fraction
    end
    return write(key, add_span(whole, fraction, -1, back, back_fraction, flow))
  end

  return load, fit, save, view, { cancel = cancel }
end
