-- names: under how many names tasks wait, and who may have a further one.
-- includes: damage

local all_names = nil -- how many names tasks wait under, if they were counted
local given_lanes = 0 -- further names that this claim gives to lanes of fair keys
local given, got = 0, {} -- further names that it gives to what nobody serves, without those lanes, and by namespace
local listed, owned = nil, nil -- all names without those lanes, and by namespace of their first task, if counted

-- count_names returns how many names tasks wait under, with those that this claim gives.
local function count_names()
  all_names = all_names or redis.call('SCARD', backlog_key)
  return all_names + given + given_lanes
end

-- first_of returns the first task that waits under a name.
local function first_of(name)
  return redis.call('ZRANGE', ready_key(name), 0, 0)[1]
end

-- count_owners counts the names by namespace, without the lanes of fair keys.
local function count_owners()
  listed, owned = 0, {}
  for _, name in ipairs(redis.call('SMEMBERS', backlog_key)) do
    if not string.find(name, '^%S+ %S+ ') then
      local first = try(first_of, name)
      local owner = first and string.match(first, '^[^:]*') or ''
      listed, owned[owner] = listed + 1, (owned[owner] or 0) + 1
    end
  end
end

-- may_name returns whether a namespace may have a further name for what nobody serves: if it has fewer than are free.
-- So one has half of all at most, the next one half of the rest, and none leaves nothing to others. Lanes of fair keys
-- do not count.
local function may_name(namespace)
  if not owned and 2 * count_names() < NAMES_LIMIT then
    return true
  elseif not owned then
    count_owners()
  end
  local all, own = listed + given, (owned[namespace] or 0) + (got[namespace] or 0)
  return 2 * all < NAMES_LIMIT or own < NAMES_LIMIT - all
end
