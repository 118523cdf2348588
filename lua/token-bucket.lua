-- Token bucket: admits while tokens are left, refills continuously.
-- Twin of core/src/algorithm/token_bucket.rs; `wait` is in units.
-- State: debt, the units taken and not refilled yet, and the time it counts from.

rules['token-bucket'] = function(token, flow, burst, wait)
  local full = burst * token
  local load, save, view, turns = level(token, flow, full, full)

  local function fit(debt, _, calls, cost)
    local most = (full + wait - debt) / (cost * token)
    if cost > burst or most < 1 then
      return 0
    end
    return most < calls and most - most % 1 or calls
  end

  return load, fit, save, view, turns
end
