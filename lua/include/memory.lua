-- memory: the names of deleted tasks that are still taken, of those that a node might report the end of again, and of restored tasks of ticks that
-- may be decided again.
-- needs: arg remember, arg remember_limit, arg limit
-- includes: clock, state, changes, definition, once
-- finally: write_names()

local RESTORED_KEPT = 600000 -- ms for which the name of a restored tick is kept, whatever the limits are: its leader decides it within seconds

local names = {} -- to append

-- remember_tasks remembers those of ended tasks with these states that ended less than remember ago, and that somebody can submit
-- again. The caller deletes them.
local function remember_tasks(members, states)
  if remember == 0 or remember_limit == 0 then
    return
  end
  local records, originals
  for i, member in ipairs(members) do
    local state, finished = end_of(states[i] or '')
    if state and tonumber(finished) + remember > now and (not string.find(member, '@', 1, true) or split_key(member)) then
      records = records or redis.call('HMGET', defs_key, unpack(members))
      originals = originals or redis.call('HMGET', originals_key, unpack(members))
      if records[i] then
        local created = string.sub(records[i], 1, 13)
        local digest = originals[i] or redis.sha1hex(def_of(records[i]))
        set_later(remembered_key, member, string.sub(digest, 1, 16) .. ' ' .. state .. ' ' .. created .. ' ' .. finished)
        names[#names + 1] = member
      end
    end
  end
end

-- note_deleted notes those of ended tasks with these states of which nodes may report again how they ended, as Redis seems to have lost them
-- when they are deleted. The caller deletes them.
local function note_deleted(members, states)
  local ends = {}
  for i, member in ipairs(members) do
    local state, finished = end_of(states[i] or '')
    if state and tonumber(finished) + DELETED_FOR > now then
      ends[#ends + 1] = finished
      ends[#ends + 1] = member
    end
  end
  if #ends > 0 then
    redis.call('ZADD', deleted_key, unpack(ends))
    redis.call('ZREMRANGEBYRANK', deleted_key, 0, -DELETED_LIMIT - 1)
  end
end

-- forget_names forgets up to limit names whose time is over, and of those that are too many. Returns how many, how many of them were
-- forgotten before their time, and how long after the end of its task the last one of these was remembered.
local function forget_names()
  local surplus = redis.call('LLEN', remembered_order_key) + #names - remember_limit
  local oldest = redis.call('LRANGE', remembered_order_key, 0, limit - 1)
  local kept = #oldest > 0 and redis.call('HMGET', remembered_key, unpack(oldest)) or {}
  local count, early, shortest = 0, 0, 0
  for i, member in ipairs(oldest) do
    local restored = string.sub(kept[i] or '', 1, 1) == '-'
    local age, due = now - tonumber(string.match(kept[i] or '', '(%d+)$') or 0), restored and RESTORED_KEPT or remember
    if age < due and (restored or i > surplus) then
      break
    end
    if age < due then
      early, shortest = early + 1, age
    end
    count = i
    delete_later(remembered_key, member)
  end
  if count > 0 then
    redis.call('LTRIM', remembered_order_key, count, -1)
  end
  return count, early, shortest
end

local function write_names()
  if #names > 0 then
    redis.call('RPUSH', remembered_order_key, unpack(names))
  end
end
