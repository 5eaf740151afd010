-- sweep: deletes finished tasks whose retention is over and, if too many are stored, those whose retention ends next.
-- includes: clock, number, refuse, fence, changes
-- keys:
--   lease   STRING
--   expiry  ZSET
--   wheel   ZSET
--   ticks   ZSET
-- args:
--   fence  fence   that this leader got with the lease
--   keep   number  maximum number of finished tasks in the partition
--   limit  number  maximum number of tasks to delete
-- reply:
--   forgotten      number  tasks that were deleted
--   due_tasks      number  scheduled tasks that are due
--   due_schedules  number  schedules whose ticks the leader has to plan now
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: it deletes further tasks, if any
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
local states = redis.call('HMGET', states_key(), unpack(members))
for i, member in ipairs(members) do
  local state = string.match(states[i] or '', '^%a+')
  if state then
    remove_later(index_key(string.match(member, '^[^:]+'), state), member)
  end
  for _, hash in ipairs({ defs_key(), states_key(), payloads_key(), originals_key(), results_key(), errors_key(), checkpoints_key() }) do
    delete_later(hash, member)
  end
  redis.call('DEL', attempts_key(member), log_key(member))
  remove_later(expiry, member)
end
return { #members, due_tasks, due_schedules }
