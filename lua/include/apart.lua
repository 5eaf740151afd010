-- apart: lets due tasks wait that nobody can run, and no claim looks at them until somebody can: under their name or,
-- if there are too many names, in one set without a name.
-- needs: arg wake
-- includes: changes, turn, names, ready, noted

local APART_LANES = LANES_LIMIT / 2 -- so many names leave no further lane to a fair key that nobody serves
local apart = {} -- names that nobody serves and under which tasks wait

-- exists returns whether tasks wait under a name already.
local function exists(name)
  return apart[name] or kind_of(name) ~= 'none'
end

-- place_apart returns the name under which a task waits that nobody serves. Its fair key
-- gets no further lane when half of them are taken: the others are for what somebody serves.
local function place_apart(place, member)
  if exists(place.name) then
    return place.name
  end
  if place.name ~= place.pool and count_names() < APART_LANES then
    given_lanes = given_lanes + 1
    return place.name
  elseif exists(place.pool) then
    return place.pool
  end
  local namespace = string.match(member, '^[^:]*')
  if not may_name(namespace) then
    return UNNAMED
  end
  given, got[namespace] = given + 1, (got[namespace] or 0) + 1
  return place.pool
end

-- wait_apart lets a due task wait under a name, or without one.
local function wait_apart(name, place, member, due, record)
  if is_broken(name) then
    return stay_on_wheel(member)
  end
  note_limits(member, place.limits)
  if not apart[name] then
    apart[name] = true
    add_later(backlog_key, name)
  end
  put_later(ready_key(name), rank_of(due, place.ahead), member)
  note_later(member, due, record)
end

-- leave_apart lets a due task wait that nobody can run.
local function leave_apart(place, member, due, record)
  wait_apart(place_apart(place, member), place, member, due, record)
end

-- add_apart adds the names under which this claim has let tasks wait to a list, as far as it may have more.
local function add_apart(names)
  for name in pairs(apart) do
    if #names < NAMES_SAID then
      names[#names + 1] = name
    end
  end
end
