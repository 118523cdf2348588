-- Sliding log: exact, every admission is remembered.
-- Twin of core/src/algorithm/sliding_log.rs. p: count, period.
-- State: a list of entries; see log.lua.

rules['sliding-log'] = {
  load = log_at,

  fit = function(log, _, _, p, calls, cost)
    return min(calls, floor(max(0, p[1] - log_used(log)) / cost))
  end,

  save = function(key, log, _, now, p, units)
    if units < 0 then
      return give_back(key, log, now, p, -units)
    elseif log_used(log) == 0 then
      return begin_log(key, now, p, units)
    end
    if log.first > 1 then
      redis.call('LTRIM', key, log.first - 1, -1)
      log.first, log.length = 1, log.length - log.first + 1
    end
    log.sum = log.sum + units
    if log.last >= now then
      redis.call('LSET', key, -1, struct.pack('>I7I4', log.last, log.sum % 2 ^ 32))
    else
      log.last, log.length = now, log.length + 1
      push_entry(key, now, log.sum)
    end
    return expire_log(key, log, now, p)
  end,

  view = function(log, _, now, p, cost, key)
    local left, retry_after = max(0, p[1] - log_used(log)), 0
    local missing = cost > p[1] and 0 or max(0, log_used(log) + cost - p[1])
    if missing > 0 then
      local index = search_log(key, log.first, log.length, function(_, sum)
        return (sum - log.base) % 2 ^ 32 >= missing
      end)
      retry_after = entry_at(key, index) + p[2] - now
    end
    return left, retry_after, log_used(log) > 0 and log.last + p[2] - now or 0
  end,
}
