-- apart: lets due tasks wait that nobody can run: under their name, and no claim looks at them until somebody can.
-- needs: key wheel
-- includes: clock, number, changes

local apart = {} -- by name that nobody serves: whether tasks may wait under it; else there are too many names
local listed = nil -- names under which tasks wait, if they were counted
local put_off = 0 -- tasks for which there is no name

-- has_place returns whether tasks may wait under a name that nobody serves: others wait there, or there are not too
-- many names.
local function has_place(name)
  if apart[name] == nil then
    local known = redis.call('EXISTS', ready_key(name)) == 1
    listed = listed or redis.call('SCARD', backlog_key())
    apart[name] = known or listed < NAMES_LIMIT
    if apart[name] then
      add_later(backlog_key(), name)
      listed = listed + (known and 0 or 1)
    end
  end
  return apart[name]
end

-- leave_apart lets a due task wait that nobody can run; on the wheel, for a while, if it has no place.
local function leave_apart(name, member, due)
  if has_place(name) then
    return put_later(ready_key(name), due, member)
  end
  put_off = put_off + 1
  put_later(wheel, int(now + PUT_OFF_FOR + put_off * 100), member) -- not all at once
end
