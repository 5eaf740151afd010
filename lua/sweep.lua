-- sweep: deletes finished tasks whose retention is over and, if too many are stored, those whose retention ends next. What ended less
-- than remember ago leaves its name, so that it is not run again when it is submitted again; but for tasks of schedules, which nobody can
-- submit. Tasks that owe a follow-up stay until the leader has created
-- it. What ended within the last two minutes is noted apart, so that it is not restored. Names are forgotten after that time and, if there
-- are too many, before. Those of restored ticks are forgotten after 10 minutes.
-- includes: clock, number, refuse, fence, changes, definition, memory, deletion
-- keys:
--   lease   STRING
--   expiry  ZSET
--   wheel   ZSET
--   ticks   ZSET
-- args:
--   fence           fence   that this leader got with the lease
--   keep            number  maximum number of finished tasks in the partition
--   limit           number  maximum number of tasks to delete, and of names to forget
--   remember        ms      how long after its end the name of a task is taken at least
--   remember_limit  number  maximum number of names of deleted tasks in the partition
--   wake            channel
-- reply:
--   deleted        number  tasks that were deleted
--   forgotten      number  names that were forgotten
--   early          number  those of them that were forgotten before their time
--   shortest       ms      how long the last one of these was remembered after the end of its task; 0 if there are none
--   due_tasks      number  scheduled tasks that are due
--   due_schedules  number  schedules whose ticks the leader has to plan now
--   outbox         number  entries of the outbox that are due
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: it deletes further tasks, if any
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local due_tasks, due_schedules = redis.call('ZCOUNT', wheel, '-inf', int(now)), redis.call('ZCOUNT', ticks, '-inf', int(now))
local surplus = redis.call('ZCARD', expiry) - keep
local over = redis.call('ZCOUNT', expiry, '-inf', int(now))
local count = math.min(limit, math.max(surplus, over))
local members = count > 0 and redis.call('ZRANGE', expiry, 0, count - 1) or {}
local states = #members > 0 and redis.call('HMGET', states_key, unpack(members)) or {}
delete_ended(members, states)
local forgotten, early, shortest = forget_names()
return { #members, forgotten, early, int(shortest), due_tasks, due_schedules, redis.call('ZCOUNT', outbox_key, '-inf', int(now)) }
