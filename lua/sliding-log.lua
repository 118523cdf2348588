-- Sliding log: exact, every admission is remembered.
-- Twin of core/src/algorithm/sliding_log.rs.
-- State: a list of entries; see log.lua.

rules['sliding-log'] = function(count, period)
  local function load(key)
    return log_at(key, period)
  end

  local function fit(log, _, calls, cost)
    return min(calls, floor(max(0, count - log_used(log)) / cost))
  end

  local function save(key, log, _, units)
    if units < 0 then
      return give_back(key, log, period, -units)
    elseif log_used(log) == 0 then
      return begin_log(key, period, units)
    end
    if log.first > 1 then
      call('LTRIM', key, log.first - 1, -1)
      log.first, log.length = 1, log.length - log.first + 1
    end
    log.sum = log.sum + units
    if log.last >= now then
      call('LSET', key, -1, to_bytes(ENTRY, log.last, log.sum % 2 ^ 32))
    else
      log.last, log.length = now, log.length + 1
      push_entry(key, now, log.sum)
    end
    return expire_log(key, log, period)
  end

  local function view(log, _, cost, key)
    local used, retry_after = log_used(log), 0
    local missing = cost > count and 0 or max(0, used + cost - count)
    if missing > 0 then
      local index = search_log(key, log.first, log.length, function(_, sum)
        return (sum - log.base) % 2 ^ 32 >= missing
      end)
      retry_after = entry_at(key, index) + period - now
    end
    return max(0, count - used), retry_after, used > 0 and log.last + period - now or 0
  end

  return load, fit, save, view
end
