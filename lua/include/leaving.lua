-- leaving: lets due tasks wait for room, in the sets of ready tasks. A rank is the score of a task there.
-- includes: changes, turn, waiting, names, ready, noted

local oldest = {} -- by name: the rank of the first task that waits, if that was read
local more = {} -- by name: by how many more tasks wait after this claim; less than 0 for fewer

-- rank_of_first returns the rank of the first task that waits under a name.
local function rank_of_first(name)
  return tonumber(redis.call('ZRANGE', ready_key(name), 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- name_of returns the name under which a task waits from now on. If there are too many lanes, it is without its fair
-- key, and nil for a task with limits or a reach.
local function name_of(place)
  if place.name == place.pool or waits[place.name] or count_names() < LANES_LIMIT then
    return place.name
  end
  return not place.limits and not place.reach and place.pool or nil
end

-- leave lets a due task wait in a set of ready tasks.
local function leave(place, member, due, record)
  local name, rank = name_of(place), rank_of(due, place.ahead)
  if not name or is_broken(name) then
    local is_moved = string.sub(place.reach or '', 1, 1) == '^'
    return stay_on_wheel(member, not name and LIMITED_PAUSE or nil, is_moved)
  end
  note_limits(member, place.limits)
  more[name] = (more[name] or 0) + 1
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

-- read_ready reads up to n tasks that wait under a name, n > 0: the first one, and those whose rank is at most upto;
-- but none after the earliest one on the wheel. It adds them to ready, and the name to emptied if that was all.
local function read_ready(name, n, upto, earliest, ready, emptied)
  local first = redis.call('ZRANGE', ready_key(name), 0, n, 'WITHSCORES')
  local stop = 1
  more[name] = more[name] or 0
  while stop < math.min(#first, 2 * n) do
    local rank = tonumber(first[stop + 1])
    if rank > earliest or stop > 1 and rank > upto then
      break
    end
    ready[#ready + 1] = { name = name, member = first[stop], rank = first[stop + 1] }
    remove_later(ready_key(name), first[stop])
    more[name] = more[name] - 1
    stop = stop + 2
  end
  oldest[name] = tonumber(first[stop + 1])
  if not oldest[name] then
    emptied[#emptied + 1] = name
    waits[name] = nil
  end
  return true
end
