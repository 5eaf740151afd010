-- choice: chooses due tasks of queues and lanes, by their names.
-- needs: arg limit, arg quota
-- includes: changes, turn, closed, waiting, lanes, leaving, apart

local members, dues, records = {}, {}, {} -- of the chosen tasks

-- choose takes a task, which counts for the quota of a name.
local function choose(name, member, due, record)
  local i = #members + 1
  members[i], dues[i], records[i] = member, due, record
  left[name] = left[name] - 1
end

-- may_overtake returns whether a due task may be chosen before those that wait, of its name or for the same quota.
local function may_overtake(place, due)
  if not left[place.name] and place.name ~= place.pool and waits[place.pool] then
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
  if left[name] > 0 and may_overtake(place, due) and #members < most then
    return choose(name, member, due, record)
  end
  leave(place, member, due, record)
end

-- go_on has a task go on that waited under a name. One for whose lane there is no name is chosen with its pool.
local function go_on(name, place, member, rank, record)
  local due = due_of_rank(rank)
  if not place or place.name == name or not place.apart and name_of(place) == name then
    return choose(name, member, due, record)
  end
  if place.apart then
    leave_apart(place, member, due, record)
  else
    choose_or_leave(place, member, due, record, limit)
  end
end

-- read_ready reads up to n tasks that wait under a name, n > 0: the first one, and those whose rank is at most upto;
-- but none after the earliest one on the wheel. It adds them to ready, and the name to emptied if that was all.
local function read_ready(name, n, upto, earliest, ready, emptied)
  local first = redis.call('ZRANGE', ready_key(name), 0, n, 'WITHSCORES')
  local stop = 1
  while stop < math.min(#first, 2 * n) do
    local rank = tonumber(first[stop + 1])
    if rank > earliest or stop > 1 and rank > upto then
      break
    end
    ready[#ready + 1] = { name = name, member = first[stop], rank = first[stop + 1] }
    remove_later(ready_key(name), first[stop])
    stop = stop + 2
  end
  oldest[name] = tonumber(first[stop + 1])
  if not oldest[name] then
    emptied[#emptied + 1] = name
    waits[name] = nil
  end
  return true
end

-- choose_ready takes the tasks that read_ready has read. Those that belong elsewhere go there.
local function choose_ready(ready, emptied)
  local names = {}
  for i, waiting in ipairs(ready) do
    names[i] = waiting.member
  end
  if #emptied > 0 then
    redis.call('SREM', backlog_key, unpack(emptied))
  end
  local found = #names > 0 and redis.call('HMGET', defs_key, unpack(names)) or {}
  local places = places_of(found, #names)
  for i, waiting in ipairs(ready) do
    go_on(waiting.name, places[i], waiting.member, waiting.rank, found[i])
  end
end
