-- changes: collects writes of many tasks and makes all of one kind with one command, after the body.
-- includes: damage
-- finally: write_changes()

local ADDED_AT_ONCE = 1000 -- members of a set: a task can have many
local later = { removals = {}, entries = {}, deletions = {}, values = {}, additions = {} } -- by set or hash
later.due = math.huge -- when the first of the tasks is due again that this script has put off
local optional = {} -- keys of entries, and whether these may be lacking

-- new_list adds a list of arguments for a key.
local function new_list(lists, key)
  lists[key] = {}
  return lists[key]
end

-- remove_later removes a member from a sorted set.
local function remove_later(set, member)
  local list = later.removals[set] or new_list(later.removals, set)
  list[#list + 1] = member
end

-- put_later puts a member into a sorted set. With may_lack, the set is passed over if it is damaged: doctor puts the member there.
local function put_later(set, score, member, may_lack)
  local list = later.entries[set] or new_list(later.entries, set)
  optional[set] = may_lack
  list[#list + 1] = score
  list[#list + 1] = member
end

-- delete_later deletes a field of a hash.
local function delete_later(hash, field)
  local list = later.deletions[hash] or new_list(later.deletions, hash)
  list[#list + 1] = field
end

-- set_later sets a field of a hash.
local function set_later(hash, field, value)
  local list = later.values[hash] or new_list(later.values, hash)
  list[#list + 1] = field
  list[#list + 1] = value
end

-- add_later adds a member to a set.
local function add_later(set, member)
  local list = later.additions[set] or new_list(later.additions, set)
  list[#list + 1] = member
end

local function write_changes()
  for set, list in pairs(later.removals) do
    try(redis.call, 'ZREM', set, unpack(list))
  end
  for set, list in pairs(later.entries) do
    if optional[set] then
      try(redis.call, 'ZADD', set, unpack(list))
    else
      redis.call('ZADD', set, unpack(list))
    end
  end
  for hash, list in pairs(later.deletions) do
    try(redis.call, 'HDEL', hash, unpack(list))
  end
  for hash, list in pairs(later.values) do
    redis.call('HSET', hash, unpack(list))
  end
  for set, list in pairs(later.additions) do
    for i = 1, #list, ADDED_AT_ONCE do
      redis.call('SADD', set, unpack(list, i, math.min(i + ADDED_AT_ONCE - 1, #list)))
    end
  end
end

