-- findings: what an examination finds, and what of it is to be repaired.
-- needs: arg checks, arg repair
-- includes: nothing

local found = {} -- member, check and words of each finding, in turn

-- is_wanted returns whether a check is asked for.
local function is_wanted(check)
  return string.find(checks, ' ' .. check .. ' ', 1, true)
end

-- pass_over notes which checks, if they are wanted, cannot look at a member, and why: a minus is before their names.
local function pass_over(member, words, names)
  for _, check in ipairs(names) do
    if is_wanted(check) then
      found[#found + 1], found[#found + 2], found[#found + 3] = member, '-' .. check, 'was not looked at: it ' .. words
    end
  end
end

-- report_only notes what a check finds of a member and no repair mends, if the check is wanted: an equals sign is
-- before its name.
local function report_only(member, check, words)
  if is_wanted(check) then
    found[#found + 1], found[#found + 2], found[#found + 3] = member, '=' .. check, words
  end
end

-- report notes what a check finds of a member, if the check is wanted. Returns whether to repair it.
local function report(member, check, words)
  if not is_wanted(check) then
    return false
  end
  found[#found + 1], found[#found + 2], found[#found + 3] = member, check, words
  return repair
end
