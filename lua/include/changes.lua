-- changes: collects writes of many tasks and makes all of one kind with one command, after the body.
-- includes: damage
-- finally: write_changes()

local ADDED_AT_ONCE = 1000 -- members of a set: a task can have many
local removals, entries, deletions, values, additions = {}, {}, {}, {}, {}
local optional = {} -- keys of entries, and whether these may be lacking

-- new_list adds a list of arguments for a key.
local function new_list(lists, key)
  lists[key] = {}
  return lists[key]
end

-- remove_later removes a member from a sorted set.
local function remove_later(set, member)
  local list = removals[set] or new_list(removals, set)
  list[#list + 1] = member
end

-- put_later puts a member into a sorted set. With may_lack, the set is passed over if it is damaged: doctor puts the member there.
local function put_later(set, score, member, may_lack)
  local list = entries[set] or new_list(entries, set)
  optional[set] = may_lack
  list[#list + 1] = score
  list[#list + 1] = member
end

-- delete_later deletes a field of a hash.
local function delete_later(hash, field)
  local list = deletions[hash] or new_list(deletions, hash)
  list[#list + 1] = field
end

-- set_later sets a field of a hash.
local function set_later(hash, field, value)
  local list = values[hash] or new_list(values, hash)
  list[#list + 1] = field
  list[#list + 1] = value
end

-- add_later adds a member to a set.
local function add_later(set, member)
  local list = additions[set] or new_list(additions, set)
  list[#list + 1] = member
end

local function remove_all(set, list)
  redis.call('ZREM', set, unpack(list))
end

local function put_all(set, list)
  redis.call('ZADD', set, unpack(list))
end

local function delete_all(hash, list)
  redis.call('HDEL', hash, unpack(list))
end

local function write_changes()
  for set, list in pairs(removals) do
    try(remove_all, set, list)
  end
  for set, list in pairs(entries) do
    if optional[set] then
      try(put_all, set, list)
    else
      put_all(set, list)
    end
  end
  for hash, list in pairs(deletions) do
    try(delete_all, hash, list)
  end
  for hash, list in pairs(values) do
    redis.call('HSET', hash, unpack(list))
  end
  for set, list in pairs(additions) do
    for i = 1, #list, ADDED_AT_ONCE do
      redis.call('SADD', set, unpack(list, i, math.min(i + ADDED_AT_ONCE - 1, #list)))
    end
  end
end

