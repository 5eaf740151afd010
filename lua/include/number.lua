-- number: formats integers.
-- includes: nothing

-- int formats a number, or text with a number, as a decimal integer. Lua's own conversion loses digits from 1e14 on.
local function int(number)
  return string.format('%.0f', tonumber(number))
end

