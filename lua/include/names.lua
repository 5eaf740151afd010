-- names: under how many names tasks wait, and who may have a further one.
-- includes: damage

local all_names = nil -- how many names tasks wait under, if they were counted
local given, got = 0, {} -- names that this claim gives: all of them, and by namespace
local listed, owned = nil, nil -- names without those of fair keys, and by namespace of their first task, if counted

-- first_of returns the first task that waits under a name.
local function first_of(name)
  return redis.call('ZRANGE', ready_key(name), 0, 0)[1]
end

-- count_owners counts the names by namespace.
local function count_owners()
  listed, owned = 0, {}
  for _, name in ipairs(redis.call('SMEMBERS', backlog_key())) do
    if not string.find(name, '^%S+ %S+ ') then
      local first = try(first_of, name)
      local owner = first and string.match(first, '^[^:]*') or ''
      listed, owned[owner] = listed + 1, (owned[owner] or 0) + 1
    end
  end
end

-- has_lanes returns whether there may be a further lane of a fair key, if they may take that part of all names.
local function has_lanes(part)
  all_names = all_names or redis.call('SCARD', backlog_key())
  return all_names + given < part * LANES_LIMIT
end

-- may_name returns whether a namespace may have a further name for what nobody serves: if it has fewer than are free.
-- So one has half of all at most, the next one half of the rest, and none leaves nothing to others.
local function may_name(namespace)
  all_names = all_names or redis.call('SCARD', backlog_key())
  if not owned and 2 * (all_names + given) >= NAMES_LIMIT then
    count_owners()
  end
  local all, own = (listed or all_names) + given, owned and (owned[namespace] or 0) + (got[namespace] or 0)
  return 2 * all < NAMES_LIMIT or own < NAMES_LIMIT - all
end
