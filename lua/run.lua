-- Carries out one verb on many keys: loads every state, lets every rule say what fits, and
-- changes all states of an entry or none. README.md has the contract.

local op, count = ARGV[2], tonumber(ARGV[3])
local first, width = 5 * count + 4, op == 'cancel' and 3 * count + 1 or count + 1
-- Equal words for all entries are there only once.
local step = #ARGV >= first + width and width or 0

-- How to load a state, see what fits it, save and view it, and by name what else it can do.
local function rule(member)
  local at = 5 * member - 1
  local p, q, r, s = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  return rules[ARGV[at]](p, q, r, s)
end

-- The reply: a client reads one string faster than a list of numbers.
local function packed(numbers)
  return to_bytes('>' .. string.rep('I8', #numbers), unpack(numbers))
end

if op == 'take' and count == 1 then
  -- What nearly all runs are. The same as below, without tables.
  local load, fit, save, view = rule(1)
  local calls, cost = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  local reply, last = { now, 0, 0, 0 }, 1
  for i = 1, #KEYS do
    local key = KEYS[i]
    local a, b = load(key)
    local admitted = cost > 0 and fit(a, b, calls, cost) or calls
    if admitted * cost > 0 then
      a, b = save(key, a, b, admitted * cost)
    end
    local x, y, z = view(a, b, cost, key)
    reply[last + 1], reply[last + 2], reply[last + 3] = admitted, x, y
    last = last + 3
    if z then
      last = last + 1
      reply[last] = z
    end
    if step > 0 and i < #KEYS then
      local at = first + i * step
      calls, cost = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    end
  end
  return packed(reply)
end

local takes = op == 'take' or op == 'hold'
local load, fit, save, view, other = {}, {}, {}, {}, {}
for i = 1, count do
  load[i], fit[i], save[i], view[i], other[i] = rule(i)
end
local a, b, cost = {}, {}, {}

-- What is to be taken from a member, or with a minus given back.
local function units(i, admitted)
  if takes then
    return admitted * cost[i]
  elseif op == 'refund' then
    return -cost[i]
  elseif op == 'debit' then
    return fit[i](a[i], b[i], cost[i], 1)
  end
  return 0
end

local reply = { now }
for entry = 0, #KEYS / count - 1 do
  local at, key = first + entry * step, entry * count
  local admitted = op ~= 'hold' and tonumber(ARGV[at]) or 1
  for i = 1, count do
    cost[i] = tonumber(ARGV[at + i])
    a[i], b[i] = load[i](KEYS[key + i])
    if (takes or op == 'peek') and cost[i] > 0 and admitted > 0 then
      admitted = fit[i](a[i], b[i], admitted, cost[i])
    end
  end
  local place = #reply + 1
  reply[place] = admitted
  for i = 1, count do
    local name, more, verb = KEYS[key + i], units(i, admitted), other[i] and other[i][op]
    if more ~= 0 then
      a[i], b[i] = save[i](name, a[i], b[i], more, ARGV[at])
    elseif op == 'cancel' and verb then
      local mark = at + count + 2 * i - 1
      a[i], b[i] = verb(name, a[i], b[i], cost[i], tonumber(ARGV[mark]), tonumber(ARGV[mark + 1]))
    elseif op == 'reset' then
      call('DEL', name)
      a[i], b[i] = load[i](name)
    elseif verb then
      reply[place] = verb(name, ARGV[at])
      a[i], b[i] = load[i](name)
    end
    for _, number in ipairs({ view[i](a[i], b[i], cost[i], name) }) do
      reply[#reply + 1] = number
    end
  end
end
return packed(reply)
