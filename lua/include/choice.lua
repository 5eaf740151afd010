-- choice: chooses due tasks of queues and lanes, by their names.
-- needs: arg limit, arg quota
-- includes: changes, definition, closed, waiting, lanes, ready, noted, apart

local members, dues, records = {}, {}, {} -- of the chosen tasks
local moved = 0 -- tasks that waited, and go on waiting elsewhere
local oldest = {} -- by name: when the first one that waits was due, if that was read

-- choose takes a task.
local function choose(name, member, due, record)
  local i = #members + 1
  members[i], dues[i], records[i] = member, due, record
  left[name] = left[name] - 1
end

-- leave lets a due task wait in the set of ready tasks.
local function leave(name, member, due, record)
  if is_broken(name) then
    return stay_on_wheel(member)
  end
  put_later(ready_key(name), due, member)
  note_later(member, due, record)
  if not waits[name] then
    waits[name], oldest[name] = true, tonumber(due)
    add_later(backlog_key(), name)
  elseif oldest[name] then
    oldest[name] = math.min(oldest[name], tonumber(due))
  end
end

-- choose_or_leave takes a due task, or leaves it if there is no room for it, others wait that may have been due before, or most are chosen.
local function choose_or_leave(name, member, due, record, most)
  left[name] = left[name] or is_closed(name) and 0 or quota
  local is_first = not waits[name] or oldest[name] and tonumber(due) < oldest[name]
  if left[name] > 0 and is_first and #members < most then
    return choose(name, member, due, record)
  end
  leave(name, member, due, record)
end

-- choose_ready takes up to n tasks that wait under a name, n > 0: the first one, and those that were due by then; but none that was due after
-- the earliest one on the wheel. Those that belong to a lane go there.
local function choose_ready(name, n, upto, earliest)
  local first = redis.call('ZRANGE', ready_key(name), 0, n, 'WITHSCORES')
  local names = {}
  for i = 1, math.min(#first, 2 * n), 2 do
    local due = tonumber(first[i + 1])
    if due > earliest or i > 1 and due > upto then
      break
    end
    names[#names + 1] = first[i]
    remove_later(ready_key(name), first[i])
  end
  if #first > 2 * #names then
    oldest[name] = tonumber(first[2 * #names + 2])
  else
    redis.call('SREM', backlog_key(), name)
    waits[name] = nil
  end
  local found = #names > 0 and redis.call('HMGET', defs_key(), unpack(names)) or {}
  local places = places_of(found, #names)
  for i, member in ipairs(names) do
    local place = places[i] and places[i].name or name
    moved = moved + (place == name and 0 or 1)
    if places[i] and places[i].apart then
      leave_apart(place, member, first[2 * i], found[i])
    elseif place == name then
      choose(name, member, first[2 * i], found[i])
    else
      choose_or_leave(place, member, first[2 * i], found[i], limit)
    end
  end
end
