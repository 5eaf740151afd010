-- cancel: somebody wants the task not to run. A waiting one ends at once; a running one is told to stop.
-- keys:
--   1 task  HASH  the others, of the same partition, are made from its name
-- args:
--   1 member     "namespace:id"
--   2 retention  ms
--   3 events     channel
--   4 control    channel that workers listen to
--   5 wake       channel that leaders listen to
-- reply: HGETALL of the task as it is now
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task has ended; the detail is its state
-- repeat: harmless: a cancelled task stays cancelled, a running one is told again
local task = KEYS[1]
local member, retention, events, control, wake = unpack(ARGV)

local state = redis.call('HGET', task, 'state')
if not state then
  return refuse('NOTFOUND', member)
end
if state == 'succeeded' or state == 'failed' then
  return refuse('STATE', state)
end

stop_task(partition_of(task, member), member, retention, now_ms(), events, control, wake)
return redis.call('HGETALL', task)
