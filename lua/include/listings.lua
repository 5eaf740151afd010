-- listings: in which sorted sets tasks are listed.
-- needs: key defs, arg name
-- includes: number, turn, awaited

-- waiting_sets returns the sets in one of which a scheduled task waits.
local function waiting_sets(member, record)
  local sets = { wheel_key }
  for _, name in ipairs(names_of_waiting(member, record)) do
    sets[#sets + 1] = ready_key(name)
  end
  return sets
end

-- is_known returns whether a task with that record was found in a set of ready tasks in which it may be. Whoever
-- examines the task itself looks there.
local function is_known(member, record)
  for _, known in ipairs(name ~= '' and record and names_of_waiting(member, record) or {}) do
    if known == name then
      return true
    end
  end
  return false
end

-- unknown iterates over the members that next_member returns, without those that is_known says need no look. What else
-- next_member returns goes with them.
local function unknown(next_member)
  return function()
    for member, tick, broken, digest in next_member do
      if name == '' or not is_known(member, redis.call('HGET', defs, member)) then
        return member, tick, broken, digest
      end
    end
  end
end

local exist = {} -- by set: whether it exists

-- score_of returns the score of a member in a set, nil if it is not there.
local function score_of(set, member)
  if exist[set] == nil then
    exist[set] = redis.call('EXISTS', set) == 1
  end
  return exist[set] and redis.call('ZSCORE', set, member) or nil
end

-- list_in adds a member to a set.
local function list_in(set, member, score)
  redis.call('ZADD', set, int(score), member)
  exist[set] = true
end

-- listings_of returns the scores of a member by the keys of the sets in which it is listed. record is nil if there is
-- no such task.
local function listings_of(member, record)
  local sets = record and waiting_sets(member, record) or { wheel_key }
  for _, set in ipairs({ queued_key, running_key, held_key, expiry_key }) do
    sets[#sets + 1] = set
  end
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    sets[#sets + 1] = index_key(string.match(member, '^[^:]*'), state)
  end
  if name ~= '' then
    sets[#sets + 1] = ready_key(name)
  end
  local listed = {}
  for _, set in ipairs(sets) do
    listed[set] = score_of(set, member)
  end
  return listed
end
