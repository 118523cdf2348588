-- Token bucket: admits while tokens are left, refills continuously.
-- Twin of core/src/algorithm/token_bucket.rs. p: token, flow, burst, wait (in units).
-- State: debt, the units taken and not refilled yet, and the time it counts from.

rules['token-bucket'] = {
  load = function(key, now, p)
    return load_level(key, now, p[1], p[2], p[3] * p[1])
  end,

  fit = function(debt, _, _, p, calls, cost)
    if cost > p[3] then
      return 0
    end
    return min(calls, floor(max(0, p[3] * p[1] + p[4] - debt) / (cost * p[1])))
  end,

  save = function(key, debt, time, now, p, units)
    return save_level(key, debt + units * p[1], time, now, p[1], p[2])
  end,

  view = view_level,

  cancel = function(key, debt, time, now, p, cost, marked_debt, marked_time)
    local left = debt_without(debt, time, p[2], cost * p[1], p[3] * p[1], marked_debt, marked_time)
    if left == debt then
      return debt, time
    end
    return save_level(key, left, time, now, p[1], p[2])
  end,
}
