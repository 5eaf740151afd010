-- damage: goes on where a key or a value is not what a script needs, as somebody has written to Redis by hand.
-- includes: nothing

-- is_damage returns whether an error is that of such a key or value, and not one of a Redis that is full or refuses
-- writes.
local function is_damage(failure)
  local text = type(failure) == 'table' and failure.err or tostring(failure)
  for _, words in ipairs({ 'WRONGTYPE', 'not an integer', 'attempt to ' }) do
    if string.find(text, words, 1, true) then
      return true
    end
  end
  return false
end

-- try calls a function and returns what that returns; nil if damage ends it, which doctor finds.
local function try(f, ...)
  local done, result = pcall(f, ...)
  if done then
    return result
  elseif not is_damage(result) then
    error(result, 0)
  end
end
