-- Leaky bucket as a queue: admits at a constant pace, up to `queue` units wait.
-- Twin of core/src/algorithm/leaky_bucket.rs. p: token, flow, queue, wait (in units).
-- State: debt, the units of slots that are taken and have not gone by, and its time.

rules['leaky-bucket'] = {
  load = function(key, now, p)
    return load_level(key, now, p[1], p[2], (p[3] + 1) * p[1])
  end,

  fit = function(debt, _, _, p, calls, cost)
    if cost > p[3] + 1 then
      return 0
    end
    local room = min(p[4], (p[3] - cost + 1) * p[1]) - debt
    return room < 0 and 0 or min(calls, floor(room / (cost * p[1])) + 1)
  end,

  save = function(key, debt, time, now, p, units)
    return save_level(key, debt + units * p[1], time, now, p[1], p[2])
  end,

  view = view_level,

  cancel = function(key, debt, time, now, p, cost, marked_debt, marked_time)
    local left = debt_without(debt, time, p[2], cost * p[1], cost * p[1], marked_debt, marked_time)
    if left == debt then
      return debt, time
    end
    return save_level(key, left, time, now, p[1], p[2])
  end,
}
