-- Token bucket: admits while tokens are left, refills continuously.
-- Twin of core/src/algorithm/token_bucket.rs; `wait` is in units.
-- State: debt, the units taken and not refilled yet, and the time it counts from.

rules['token-bucket'] = function(token, flow, burst, wait)
  local full = burst * token
  local load, write, view, cancel = level(token, flow, full)

  local function fit(debt, _, calls, cost)
    local most = (full + wait - debt) / (cost * token)
    if cost > burst or most < 1 then
      return 0
    end
    return most < calls and most - most % 1 or calls
  end

  local function save(key, debt, time, units)
    return write(key, debt + units * token, time)
  end

  return load, fit, save, view, {
    cancel = function(key, debt, time, cost, marked_debt, marked_time)
      return cancel(key, debt, time, cost * token, full, marked_debt, marked_time)
    end,
  }
end
