-- sweep: finished tasks whose retention is over, and the ones next to it where there are too many, are forgotten.
-- includes: clock, number, refuse, fence
-- keys:
--   lease   STRING
--   expiry  ZSET
--   wheel   ZSET
--   ticks   ZSET
-- args:
--   fence  fence   the lease's value while this leader holds it
--   keep   number  finished tasks kept in the partition at most
--   limit  number  tasks forgotten in one run at most
-- reply:
--   forgotten      number
--   due_tasks      number  tasks on the wheel that are due
--   due_schedules  number  schedules that the leader has to look at
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless: it goes on with what is left
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local due_tasks, due_schedules = redis.call('ZCOUNT', wheel, '-inf', int(now)), redis.call('ZCOUNT', ticks, '-inf', int(now))
local surplus = redis.call('ZCARD', expiry) - keep
local over = redis.call('ZCOUNT', expiry, '-inf', int(now))
local count = math.min(limit, math.max(surplus, over))
if count <= 0 then
  return { 0, due_tasks, due_schedules }
end
local members = redis.call('ZRANGE', expiry, 0, count - 1)
for _, member in ipairs(members) do
  local state = redis.call('HGET', task_key(member), 'state')
  if state then
    redis.call('ZREM', index_key(string.match(member, '^[^:]+'), state), member)
  end
  redis.call('DEL', task_key(member), attempts_key(member), log_key(member))
  redis.call('ZREM', expiry, member)
end
return { #members, due_tasks, due_schedules }
