-- Generic cell rate algorithm: the token bucket's decisions, kept as one arrival time.
-- Twin of core/src/algorithm/gcra.rs. p: token, flow, burst, wait (in microseconds).
-- State: how far the arrival time is ahead of now, as whole microseconds and a fraction in
-- units of 1/flow. Stored: the arrival time; the fraction and flow where there is a fraction;
-- the time of writing where somebody waits, as the arrival time is then far ahead by right.

rules['gcra'] = {
  load = load_arrival,

  -- The largest number of calls that fit, by halving.
  fit = function(whole, fraction, _, p, calls, cost)
    local most, most_fraction = span(p[3], p)
    local low, high = 0, cost > p[3] and 0 or calls
    while low < high do
      local middle = ceil((low + high) / 2)
      local more, more_fraction = span(middle * cost, p)
      local after, after_fraction = add_span(whole, fraction, 1, more, more_fraction, p)
      if longer(after, after_fraction, most + p[4], most_fraction) then
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
    whole, fraction = add_span(whole, fraction, sign, more, more_fraction, p)
    return save_arrival(key, whole, fraction, now, p)
  end,

  view = function(whole, fraction)
    return whole, fraction, 0
  end,

  -- A turn that has come is not given back, nor what others took after it.
  cancel = function(key, whole, fraction, now, p, cost, marked, marked_fraction)
    local own = marked - now
    if not longer(own, marked_fraction, span(p[3], p)) then
      return whole, fraction
    end
    local later, later_fraction = add_span(whole, fraction, -1, own, marked_fraction, p)
    local back, back_fraction = span(cost, p)
    back, back_fraction = add_span(back, back_fraction, -1, later, later_fraction, p)
    if back + back_fraction == 0 or whole + fraction == 0 then
      return whole, fraction
    end
    whole, fraction = add_span(whole, fraction, -1, back, back_fraction, p)
    return save_arrival(key, whole, fraction, now, p)
  end,
}
