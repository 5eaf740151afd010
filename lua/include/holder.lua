-- holder: the holders of a limit are a set, with one member for each slot. A task that needs three slots is three
-- members: "default:x", "default:x 2", "default:x 3".
-- includes: nothing

-- cost_in returns how many slots a task needs of each of the limits in a text: it begins with the number if that is
-- more than 1. What goes through the limits matches LIMIT, as each begins with a letter.
local function cost_in(limits)
  return tonumber(string.match(limits, '^(%d+),') or 1)
end

local LIMIT = '%a[^,]*'

-- holders_of returns what a task with those limits is among the holders.
local function holders_of(member, limits)
  local list = { member }
  for i = 2, cost_in(limits) do
    list[i] = member .. ' ' .. i
  end
  return list
end

-- task_of returns the task of a holder, and which of its slots that is.
local function task_of(holder)
  local member, number = string.match(holder, '^(%S+) (%d+)$')
  return member or holder, tonumber(number or 1)
end
