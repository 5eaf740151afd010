-- apart: lets due tasks wait that nobody can run, and no claim looks at them until somebody can: under their name or,
-- if there are too many names, in one set without a name.
-- needs: arg wake
-- includes: changes, damage, turn, ready, noted

local apart = {} -- names that nobody serves and under which tasks wait
local listed = nil -- the number of names in the backlog, if they were counted
local owned = nil -- names by the namespace of the first task that waits under them, if they were counted
local got, given = {}, 0 -- names that this claim gives, by namespace, and all of them

-- first_of returns the first task that waits under a name.
local function first_of(name)
  return redis.call('ZRANGE', ready_key(name), 0, 0)[1]
end

-- count_names counts the names, without those of lanes of fair keys, which are served.
local function count_names()
  listed, owned = 0, {}
  for _, name in ipairs(redis.call('SMEMBERS', backlog_key())) do
    if not string.find(name, '^%S+ %S+ ') then
      local first = try(first_of, name)
      local owner = first and string.match(first, '^[^:]*') or ''
      listed, owned[owner] = listed + 1, (owned[owner] or 0) + 1
    end
  end
end

-- may_name returns whether a namespace may have a further name: if it has fewer than are free. So one has half of all
-- at most, the next one half of the rest, and none leaves nothing to others.
local function may_name(namespace)
  listed = listed or redis.call('SCARD', backlog_key())
  if not owned and 2 * (listed + given) >= NAMES_LIMIT then
    count_names()
  end
  local all, own = listed + given, owned and (owned[namespace] or 0) + (got[namespace] or 0)
  return 2 * all < NAMES_LIMIT or own < NAMES_LIMIT - all
end

-- place_apart returns the name under which a task waits that nobody serves.
local function place_apart(name, member)
  if apart[name] or kind_of(name) ~= 'none' then
    return name
  end
  local namespace = string.match(member, '^[^:]*')
  if not may_name(namespace) then
    return UNNAMED
  end
  given, got[namespace] = given + 1, (got[namespace] or 0) + 1
  return name
end

-- wait_apart lets a due task wait under a name, or without one. ahead is how many ms it counts as due earlier.
local function wait_apart(name, ahead, member, due, record)
  if is_broken(name) then
    return stay_on_wheel(member)
  end
  if not apart[name] then
    apart[name] = true
    add_later(backlog_key(), name)
  end
  put_later(ready_key(name), rank_of(due, ahead), member)
  note_later(member, due, record)
end

-- leave_apart lets a due task wait that nobody can run.
local function leave_apart(place, member, due, record)
  wait_apart(place_apart(place.name, member), place.ahead, member, due, record)
end

-- add_apart adds the names under which this claim has let tasks wait to a list, as far as it may have more.
local function add_apart(names)
  for name in pairs(apart) do
    if #names < NAMES_SAID then
      names[#names + 1] = name
    end
  end
end
