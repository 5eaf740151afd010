-- closed: names of queues and lanes whose tasks may not be taken now, as the leader says. Each is between line breaks.
-- needs: arg closed
-- includes: nothing

-- CLOSED_FEW names are looked for one by one: reading all of a long text takes as long.
local CLOSED_FEW = 8
local closed_names, closed_asked = nil, 0 -- all names, if they were read

-- read_closed reads the whole text.
local function read_closed()
  closed_names = {}
  for name in string.gmatch(closed, '[^\n]+') do
    closed_names[name] = true
  end
end

-- is_closed returns whether no task of a name may be taken.
local function is_closed(name)
  if closed == '' then
    return false
  end
  closed_asked = closed_asked + 1
  if closed_asked <= CLOSED_FEW then
    return string.find(closed, '\n' .. name .. '\n', 1, true) ~= nil
  end
  if not closed_names then
    read_closed()
  end
  return closed_names[name] or false
end
