-- leaving: lets due tasks wait for room, in the sets of ready tasks. A rank is the score of a task there.
-- includes: changes, turn, waiting, names, ready, noted

local oldest = {} -- by name: the rank of the first task that waits, if that was read

-- rank_of_first returns the rank of the first task that waits under a name.
local function rank_of_first(name)
  return tonumber(redis.call('ZRANGE', ready_key(name), 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- name_of returns the name under which a task waits from now on: without its fair key if there are too many lanes.
local function name_of(place)
  if place.name == place.pool or waits[place.name] then
    return place.name
  end
  return count_names() < LANES_LIMIT and place.name or place.pool
end

-- leave lets a due task wait in a set of ready tasks.
local function leave(place, member, due, record)
  local name, rank = name_of(place), rank_of(due, place.ahead)
  if is_broken(name) then
    return stay_on_wheel(member)
  end
  if not waits[name] then
    waits[name], oldest[name] = true, tonumber(rank)
    given_lanes = given_lanes + (name == place.pool and 0 or 1)
    add_later(backlog_key, name)
  elseif oldest[name] then
    oldest[name] = math.min(oldest[name], tonumber(rank))
  elseif place.ahead > 0 then -- the leader must know if it is the first one now
    oldest[name] = math.min(rank_of_first(name), tonumber(rank))
  end
  put_later(ready_key(name), rank, member)
  note_later(member, due, record)
end
