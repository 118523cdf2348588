-- What all scripts share: exact arithmetic, where a product would pass 2^53, the end of Lua's
-- whole numbers, and how long a key lives.

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local EXACT = 2 ^ 53

-- a * b as quotient * c + remainder, for a and c below 2^45 and b below 2^49: long
-- multiplication by digits of seven bits, so that no step leaves the exact range.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    return floor(product / c), product % c
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

-- For how many milliseconds to keep a state that is as good as fresh after `us`. Under a clock
-- that is moved by hand Redis's own time says nothing, and an hour is enough for a test.
local function lifetime(us)
  return max(1, ceil(us / 1000), ARGV[1] ~= '' and 3600000 or 0)
end
