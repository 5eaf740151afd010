-- look_after: a leader reads what it must look after now: runs whose lease is over, and queued tasks that have waited long
-- for a worker to begin them.
-- includes: clock, number, refuse, fence, changes, definition
-- keys:
--   lease   STRING  the script makes further keys of the same partition
--   queued  ZSET
--   held    ZSET
-- args:
--   fence  fence   that this leader got with the lease
--   again  ms      until the leader looks after the same tasks again; after queued ones that have waited long already, later
--   limit  number  maximum number of tasks of each kind
--   lease_of_nodes  ms  how long nodes lease their runs
--   cut    flag    cut what is too far ahead, as Redis's clock was set back: leases of runs to what their workers asked for, and times
--     at which to look after queued tasks to now
--   spare  flag    leave runs alone, as their workers may have been unable to extend their leases
--   all    flag    look after all queued tasks, as the leader could do nothing for some of those that its last look found
-- reply:
--   now      time
--   next     time  when the leader must look again; none if nothing runs or is queued
--   more     flag  there may be more to look after at once
--   lapsed   (member text, record text, state text)*  running tasks, whose lease was over; it ends with again now
--   waiting  (member text, record text, state text)*  queued tasks
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: it reads further tasks; the others come again after a while
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

-- longest_lease returns the longest lease that a run can have, by its token from "#" on: nodes number their runs, and workers by HTTP name
-- their lease. Tokens of the release before name none, and may have any.
local function longest_lease(token)
  if string.find(token, '^#?%d*$') then
    return lease_of_nodes
  end
  return tonumber((string.match(token, ':(%d+)$'))) or WORKER_LEASE_LIMIT
end

-- cut_leases cuts leases of runs that last longer than they can.
local function cut_leases()
  local members = redis.call('ZRANGE', held, '(' .. int(now + lease_of_nodes), '+inf', 'BYSCORE', 'WITHSCORES')
  for i = 1, #members, 2 do
    local token = string.match(redis.call('HGET', states_key, members[i]) or '', '#%S*') or ''
    local upto = now + longest_lease(token)
    if tonumber(members[i + 1]) > upto then
      redis.call('ZADD', held, 'XX', int(upto), members[i])
    end
  end
end

if cut then
  cut_leases()
end
local ahead = all and 0 or cut and math.max(again, LOOK_LIMIT)
for _, member in ipairs(ahead and redis.call('ZRANGE', queued, '(' .. int(now + ahead), '+inf', 'BYSCORE') or {}) do
  redis.call('ZADD', queued, 'XX', int(now), member) -- behind those that are due already
end

-- read returns so many tasks of a set at most that are due to be looked after: names, definitions without payload, and states; then their
-- names alone, and how many were due. It removes those that are not in the state of the set, as after somebody has written to Redis by hand.
local function read(set, state, most)
  local members = redis.call('ZRANGE', set, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most)
  if #members == 0 then
    return {}, {}, 0
  end
  local records, states = redis.call('HMGET', defs_key, unpack(members)), redis.call('HMGET', states_key, unpack(members))
  local found, kept = {}, {}
  for i, member in ipairs(members) do
    if records[i] and string.match(states[i] or '', '^%a+') == state then
      kept[#kept + 1] = member
      found[#found + 1] = member
      found[#found + 1] = string.sub(records[i], 1, 13) .. head_of(records[i]) .. '\n'
      found[#found + 1] = states[i]
    else
      remove_later(set, member)
    end
  end
  return found, kept, #members
end

local lapsed, lapsed_members, all_lapsed = read(held, 'running', spare and 0 or limit)
for _, member in ipairs(lapsed_members) do
  put_later(held, int(now + again), member)
end
local waiting, waiting_members, all_waiting = read(queued, 'queued', limit)
for i, member in ipairs(waiting_members) do
  local since = tonumber((string.match(waiting[3 * i], '^queued %d+ %d+ %d+ %d+ (%d+)'))) or now
  put_later(queued, int(now + math.max(again, math.min((now - since) / 2, LOOK_LIMIT))), member)
end

-- first returns the lowest score of a set that is greater than now.
local function first(set)
  return tonumber(redis.call('ZRANGE', set, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
end
local upcoming = math.min(first(held) or math.huge, first(queued) or math.huge)
if #lapsed_members + #waiting_members > 0 then
  upcoming = math.min(upcoming, now + again)
end
return { now, upcoming < math.huge and upcoming or false, (all_lapsed == limit or all_waiting == limit) and 1 or 0, lapsed, waiting }
