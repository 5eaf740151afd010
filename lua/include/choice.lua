-- choice: chooses due tasks of queues and lanes, by their names.
-- needs: arg limit, arg quota
-- includes: changes, turn, closed, waiting, lanes, moved, leaving, apart, slots, nodes

local members, dues, records = {}, {}, {} -- of the chosen tasks
local holds = {} -- the limits of which each takes a slot, false for none
local goes_to = {} -- the node to which each goes, false for any

-- choose takes a task, which counts for the quota of a name.
local function choose(name, member, due, record, limits)
  local i = #members + 1
  members[i], dues[i], records[i], holds[i], goes_to[i] = member, due, record, limits or false, next_node(name, member)
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
-- or most are chosen. A lane of a fair key that has no quota of its own has a part in that of its pool. One of a reach
-- has none: its tasks wait until the leader says to which nodes they go.
local function choose_or_leave(place, member, due, record, most)
  local name = left[place.name] and place.name or place.pool
  if place.reach and not has_node(name) then
    return leave(place, member, due, record)
  end
  left[name] = left[name] or is_closed(name) and 0 or quota
  if left[name] > 0 and may_overtake(place, due) and #members < most and take_slots(place.limits) then
    return choose(name, member, due, record, place.limits)
  end
  leave(place, member, due, record)
end

-- may_go_on returns whether a task may be chosen that waited under a name, apart from its limits.
local function may_go_on(name, place)
  if place.reach then
    return place.name == name and has_node(name)
  end
  return place.name == name or not place.apart and name_of(place) == name
end

-- go_on has a task go on that waited under a name. One for whose lane there is no name is chosen with its pool.
local function go_on(name, place, member, rank, record)
  local due = due_of_rank(rank)
  if not place then
    return choose(name, member, due, record)
  elseif may_go_on(name, place) and take_slots(place.limits) then
    return choose(name, member, due, record, place.limits)
  elseif place.name == name then
    leave(place, member, due, record)
  elseif place.apart then
    leave_apart(place, member, due, record)
  else
    choose_or_leave(place, member, due, record, limit)
  end
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
  local places = places_of(names, found)
  for i, waiting in ipairs(ready) do
    local reach = places[i] and not places[i].apart and away.reach_in(waiting.name)
    places[i] = reach and away.place(places[i], reach) or places[i]
    go_on(waiting.name, places[i], waiting.member, waiting.rank, found[i])
  end
end
