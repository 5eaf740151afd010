-- findings: what an examination finds, and what of it is to be repaired.
-- needs: arg checks, arg repair
-- includes: nothing

local found = {} -- member, check and words of each finding, in turn

-- report notes what a check finds of a member, if the check is wanted. Returns whether to repair it.
local function report(member, check, words)
  if not string.find(checks, ' ' .. check .. ' ', 1, true) then
    return false
  end
  found[#found + 1], found[#found + 2], found[#found + 3] = member, check, words
  return repair
end
