-- number: integers as text.
-- includes: nothing

-- int writes a number, or a number in text, as an integer. Lua's own conversion loses digits from 1e14 on.
local function int(number)
  return string.format('%.0f', tonumber(number))
end

