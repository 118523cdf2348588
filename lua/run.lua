-- Carries out one verb on many keys: loads every state, lets every rule say what fits, and
-- changes all states of an entry or none. README.md has the contract.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local op, count = ARGV[2], tonumber(ARGV[3])
local takes = op == 'take' or op == 'hold'
local rule, p, a, b, cost = {}, {}, {}, {}, {}
for i = 1, count do
  local at = 5 * i - 1
  rule[i] = rules[ARGV[at]]
  p[i] = { tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]) }
end

-- What is to be taken from a member, or with a minus given back.
local function units(i, admitted)
  if takes then
    return admitted * cost[i]
  elseif op == 'refund' then
    return -cost[i]
  elseif op == 'debit' then
    return rule[i].fit(a[i], b[i], now, p[i], cost[i], 1)
  end
  return 0
end

local width = op == 'cancel' and 3 * count or count
local reply, key, last = { now }, 0, 1
for at = 5 * count + 4, #ARGV, width + 1 do
  local admitted = op ~= 'hold' and tonumber(ARGV[at]) or 1
  for i = 1, count do
    cost[i] = tonumber(ARGV[at + i])
    a[i], b[i] = rule[i].load(KEYS[key + i], now, p[i])
    if (takes or op == 'peek') and cost[i] > 0 and admitted > 0 then
      admitted = rule[i].fit(a[i], b[i], now, p[i], admitted, cost[i])
    end
  end
  for i = 1, count do
    local name, more = KEYS[key + i], units(i, admitted)
    if more ~= 0 then
      a[i], b[i] = rule[i].save(name, a[i], b[i], now, p[i], more, ARGV[at])
    elseif op == 'cancel' and rule[i].cancel then
      local mark = at + count + 2 * i - 1
      local marked, rest = tonumber(ARGV[mark]), tonumber(ARGV[mark + 1])
      a[i], b[i] = rule[i].cancel(name, a[i], b[i], now, p[i], cost[i], marked, rest)
    elseif op == 'reset' then
      redis.call('DEL', name)
      a[i], b[i] = rule[i].load(name, now, p[i])
    elseif rule[i][op] then
      admitted = rule[i][op](name, now, p[i], ARGV[at])
      a[i], b[i] = rule[i].load(name, now, p[i])
    end
    local slot = last + 3 * i - 1
    reply[slot], reply[slot + 1], reply[slot + 2] = rule[i].view(a[i], b[i], now, p[i], cost[i], name)
  end
  reply[last + 1] = admitted
  key, last = key + count, last + 3 * count + 1
end
return reply
