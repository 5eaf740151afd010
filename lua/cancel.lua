-- cancel: a task is not to run. A waiting one ends at once; a running one is told to stop.
-- includes: refuse, stop
-- keys:
--   task  HASH  further keys of the same partition are made from its name
-- args:
--   member   member
--   events   channel
--   control  channel
--   wake     channel
-- reply:
--   task  hash  the task as it is now
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has ended; the detail is its state
-- repeat: harmless: a cancelled task stays cancelled, a running one is told again
local state = redis.call('HGET', task, 'state')
if not state then
  return refuse('NOT_FOUND', member)
end
if state == 'succeeded' or state == 'failed' then
  return refuse('STATE', state)
end

stop_task(member)
return { redis.call('HGETALL', task) }
