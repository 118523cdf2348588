-- Leaky bucket as a queue: admits at a constant pace, up to `queue` units wait.
-- Twin of core/src/algorithm/leaky_bucket.rs; `wait` is in units.
-- State: debt, the units of slots that are taken and have not gone by, and its time.

rules['leaky-bucket'] = function(token, flow, queue, wait)
  local load, save, view, turns = level(token, flow, (queue + 1) * token)

  local function fit(debt, _, calls, cost)
    local room = min(wait, (queue - cost + 1) * token) - debt
    if cost > queue + 1 or room < 0 then
      return 0
    end
    return min(calls, floor(room / (cost * token)) + 1)
  end

  return load, fit, save, view, turns
end
