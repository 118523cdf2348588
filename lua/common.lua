-- What all scripts share: the time to decide by, exact arithmetic, where a product would pass 2^53,
-- the end of Lua's whole numbers, and how long a key lives. Whatever runs for each key takes no
-- more tables, calls and conversions than it needs: these are most of what a run costs.

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
local EXACT = 2 ^ 53

local now = tonumber(ARGV[1])
-- Under a clock that is moved by hand Redis's own time says nothing, and an hour is enough for a test.
local shortest = now and 3600000 or 1
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- a * b as quotient * c + remainder, for a and c below 2^45 and b below 2^49: long
-- multiplication by digits of seven bits, so that no step leaves the exact range.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local remainder = product % c
    return (product - remainder) / c, remainder
  end
  local quotient, remainder, digit = 0, 0, 2 ^ 42
  while digit >= 1 do
    local step = remainder * 128 + a * (floor(b / digit) % 128)
    quotient = quotient * 128 + floor(step / c)
    remainder = step % c
    digit = digit / 128
  end
  return quotient, remainder
end

-- For how many milliseconds to keep a state that is as good as fresh after `us`, as text: Redis
-- writes numbers out slowly, and the keys of a run often live equally long.
local texts = {}
local function lifetime(us)
  local ms = ceil(us / 1000)
  local text = texts[ms]
  if not text then
    text = string.format('%d', ms > shortest and ms or shortest)
    texts[ms] = text
  end
  return text
end
