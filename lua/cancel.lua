-- cancel: cancels a task. A waiting task ends at once; the worker of a running one is asked to stop it.
-- includes: refuse, stop
-- keys:
--   task  HASH  the script makes further keys of the same partition
-- args:
--   member   member
--   events   channel
--   control  channel
--   wake     channel
-- reply:
--   task  hash  the task as it is now
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has succeeded or failed; the detail is its state
-- repeat: harmless: a cancelled task stays as it is; the worker of a running one is asked again
local state = redis.call('HGET', task, 'state')
if not state then
  return refuse('NOT_FOUND', member)
end
if state == 'succeeded' or state == 'failed' then
  return refuse('STATE', state)
end

stop_task(member)
return { redis.call('HGETALL', task) }
