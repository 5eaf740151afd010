-- choice: chooses due tasks of queues and lanes, by their names.
-- needs: arg limit, arg quota
-- includes: changes, turn, closed, waiting, lanes, leaving, apart

local members, dues, records = {}, {}, {} -- of the chosen tasks
local moved = 0 -- tasks that waited, and go on waiting elsewhere

-- choose takes a task, which counts for the quota of a name.
local function choose(name, member, due, record)
  local i = #members + 1
  members[i], dues[i], records[i] = member, due, record
  left[name] = left[name] - 1
end

-- has_turn returns whether a due task may be chosen before those that wait, of its name or for the same quota.
local function has_turn(place, due)
  if place.name ~= place.pool and waits[place.pool] then
    return false
  end
  local first = oldest[place.name]
  return not waits[place.name] or first and tonumber(due) - place.ahead < first
end

-- choose_or_leave takes a due task, or leaves it if there is no room for it, others wait that may have been due before,
-- or most are chosen. A lane of a fair key that has no quota of its own has a part in that of its pool.
local function choose_or_leave(place, member, due, record, most)
  local name = left[place.name] and place.name or place.pool
  left[name] = left[name] or is_closed(name) and 0 or quota
  if left[name] > 0 and has_turn(place, due) and #members < most then
    return choose(name, member, due, record)
  end
  leave(place, member, due, record)
end

-- go_on has a task go on that waited under a name, and is not there any more. One without a lane of its own, as there
-- are too many, is chosen with those of its pool.
local function go_on(name, place, member, rank, record)
  local due = due_of_rank(rank)
  if not place or place.name == name or not place.apart and name_of(place) == name then
    return choose(name, member, due, record)
  end
  moved = moved + 1
  if place.apart then
    leave_apart(place, member, due, record)
  else
    choose_or_leave(place, member, due, record, limit)
  end
end

-- choose_ready takes up to n tasks that wait under a name, n > 0: the first one, and those whose rank is at most upto;
-- but none that comes after the earliest one on the wheel. Those that belong elsewhere go there.
local function choose_ready(name, n, upto, earliest)
  local first = redis.call('ZRANGE', ready_key(name), 0, n, 'WITHSCORES')
  local names = {}
  for i = 1, math.min(#first, 2 * n), 2 do
    local rank = tonumber(first[i + 1])
    if rank > earliest or i > 1 and rank > upto then
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
    go_on(name, places[i], member, first[2 * i], found[i])
  end
end
