-- unnamed: looks at tasks that nobody served and that have no name of their own. Those that somebody serves now go on,
-- and others get a name if there is one now. A claim looks at a part of them, in order of their ranks, and says
-- where the next one goes on.
-- needs: arg unnamed, arg limit
-- includes: changes, turn, lanes, apart, choice

local next_unnamed = '' -- where the next claim goes on; '' at the end

-- first_place returns the place of the first task to look at in the order of the set. If the last one has gone or has
-- another rank, some are looked at twice.
local function first_place(set)
  local rank, last = string.match(unnamed, '^(%S+) (.*)$')
  if tonumber(redis.call('ZSCORE', set, last)) == tonumber(rank) then
    return redis.call('ZRANK', set, last) + 1
  end
  return redis.call('ZCOUNT', set, '-inf', '(' .. rank)
end

-- waiting_records returns the definitions of those of the tasks that wait in the set. A node of an earlier release,
-- which does not know the set, may have cancelled others, or moved them to the wheel.
local function waiting_records(names)
  local records = redis.call('HMGET', defs_key, unpack(names))
  local states = redis.call('HMGET', states_key, unpack(names))
  local on_wheel = redis.call('ZMSCORE', wheel_key, unpack(names))
  for i = 1, #names do
    local is_scheduled = not states[i] or string.find(states[i], '^scheduled ')
    records[i] = is_scheduled and not on_wheel[i] and records[i]
  end
  return records
end

-- name_of_unnamed returns the name under which a task with a place is chosen or waits: UNNAMED if it goes on waiting
-- without one.
local function name_of_unnamed(member, place)
  return place.apart and place_apart(place, member) or place.name
end

-- look_at_unnamed looks at up to limit tasks.
local function look_at_unnamed()
  local set = ready_key(UNNAMED)
  local from = first_place(set)
  local found = redis.call('ZRANGE', set, from, from + limit - 1, 'WITHSCORES')
  local names, stays = {}, false
  for i = 1, #found, 2 do
    names[#names + 1] = found[i]
  end
  next_unnamed = #names == limit and unnamed or ''
  local records = #names > 0 and waiting_records(names) or {}
  local places = places_of(names, records)
  for i, member in ipairs(names) do
    local record, place, rank = records[i], places[i], found[2 * i]
    local name = record and name_of_unnamed(member, place)
    local stay = name == UNNAMED
    if stay then
      stays = true
      next_unnamed = next_unnamed ~= '' and rank .. ' ' .. member or ''
    else
      remove_later(set, member)
    end
    local due = due_of_rank(rank)
    if record and not place.apart then
      choose_or_leave(place, member, due, record, limit)
    elseif record and not stay then
      wait_apart(name, place, member, due, record)
    end
  end
  if #names < limit and from == 0 and not stays then
    redis.call('SREM', backlog_key, UNNAMED)
  end
end
