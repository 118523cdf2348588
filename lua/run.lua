-- Carries out one verb on many keys: loads every state, lets every rule say what fits, and
-- changes all states of an entry or none. README.md has the contract.

local op, count = ARGV[2], tonumber(ARGV[3])
local rule = {}
for i = 1, count do
  local at = 5 * i - 1
  local p, q, r, s = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  rule[i] = rules[ARGV[at]](p, q, r, s)
end
local first, width = 5 * count + 4, op == 'cancel' and 3 * count + 1 or count + 1
-- Equal words for all entries are there only once.
local step = #ARGV >= first + width and width or 0

-- What nearly all runs are: calls on one limit. The same as below, without tables.
local function take()
  local load, fit, save, view = rule[1].load, rule[1].fit, rule[1].save, rule[1].view
  local calls, cost = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  local reply, last = { now }, 1
  for i = 1, #KEYS do
    local key = KEYS[i]
    local a, b = load(key)
    local admitted = cost > 0 and fit(a, b, calls, cost) or calls
    if admitted * cost > 0 then
      a, b = save(key, a, b, admitted * cost)
    end
    local x, y, z = view(a, b, cost, key)
    reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = admitted, x, y, z
    last = last + (z and 4 or 3)
    if step > 0 and i < #KEYS then
      local at = first + i * step
      calls, cost = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    end
  end
  return reply
end

local takes = op == 'take' or op == 'hold'
local a, b, cost = {}, {}, {}

-- What is to be taken from a member, or with a minus given back.
local function units(i, admitted)
  if takes then
    return admitted * cost[i]
  elseif op == 'refund' then
    return -cost[i]
  elseif op == 'debit' then
    return rule[i].fit(a[i], b[i], cost[i], 1)
  end
  return 0
end

local function each()
  local reply = { now }
  for entry = 0, #KEYS / count - 1 do
    local at, key = first + entry * step, entry * count
    local admitted = op ~= 'hold' and tonumber(ARGV[at]) or 1
    for i = 1, count do
      cost[i] = tonumber(ARGV[at + i])
      a[i], b[i] = rule[i].load(KEYS[key + i])
      if (takes or op == 'peek') and cost[i] > 0 and admitted > 0 then
        admitted = rule[i].fit(a[i], b[i], admitted, cost[i])
      end
    end
    local place = #reply + 1
    reply[place] = admitted
    for i = 1, count do
      local name, more = KEYS[key + i], units(i, admitted)
      if more ~= 0 then
        a[i], b[i] = rule[i].save(name, a[i], b[i], more, ARGV[at])
      elseif op == 'cancel' and rule[i].cancel then
        local mark = at + count + 2 * i - 1
        a[i], b[i] = rule[i].cancel(name, a[i], b[i], cost[i], tonumber(ARGV[mark]), tonumber(ARGV[mark + 1]))
      elseif op == 'reset' then
        call('DEL', name)
        a[i], b[i] = rule[i].load(name)
      elseif rule[i][op] then
        reply[place] = rule[i][op](name, ARGV[at])
        a[i], b[i] = rule[i].load(name)
      end
      for _, number in ipairs({ rule[i].view(a[i], b[i], cost[i], name) }) do
        reply[#reply + 1] = number
      end
    end
  end
  return reply
end

if op == 'take' and count == 1 then
  return take()
end
return each()
