-- apart: lets due tasks wait that nobody can run, and no claim looks at them until somebody can: under their name or,
-- if there are too many names, in one set without a name.
-- needs: arg wake
-- includes: changes, damage, ready, noted

local apart = {} -- names that nobody serves and under which tasks wait
local listed = nil -- the number of names under which tasks wait, if they were counted
local owned = nil -- names by the namespace of the first task that waits under them, if they were counted
local got = {} -- names that a namespace has got from this claim

-- first_of returns the first task that waits under a name.
local function first_of(name)
  return redis.call('ZRANGE', ready_key(name), 0, 0)[1]
end

-- names_of returns how many names a namespace has.
local function names_of(namespace)
  if not owned then
    owned = {}
    for _, name in ipairs(redis.call('SMEMBERS', backlog_key())) do
      local first = try(first_of, name)
      local owner = first and string.match(first, '^[^:]*') or ''
      owned[owner] = (owned[owner] or 0) + 1
    end
  end
  return (owned[namespace] or 0) + (got[namespace] or 0)
end

-- may_name returns whether a namespace may have a further name: if it has fewer than are free. So one has half of all
-- at most, the next one half of the rest, and none leaves nothing to others.
local function may_name(namespace)
  listed = listed or redis.call('SCARD', backlog_key())
  return 2 * listed < NAMES_LIMIT or names_of(namespace) < NAMES_LIMIT - listed
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
  listed, got[namespace] = listed + 1, (got[namespace] or 0) + 1
  return name
end

-- wait_apart lets a due task wait under a name, or without one.
local function wait_apart(place, member, due, record)
  if is_broken(place) then
    return stay_on_wheel(member)
  end
  if not apart[place] then
    apart[place] = true
    add_later(backlog_key(), place)
  end
  put_later(ready_key(place), due, member)
  note_later(member, due, record)
end

-- leave_apart lets a due task wait that nobody can run.
local function leave_apart(name, member, due, record)
  wait_apart(place_apart(name, member), member, due, record)
end

-- add_apart adds the names under which this claim has let tasks wait to a list, as far as it may have more.
local function add_apart(names)
  for name in pairs(apart) do
    if #names < NAMES_SAID then
      names[#names + 1] = name
    end
  end
end
