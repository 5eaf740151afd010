-- cancel: cancels a task. A waiting task ends at once; the worker of a running one is asked to stop it.
-- includes: refuse, stop, task
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   member   member
--   by       text  who asks for it, "" if nobody knows
--   events   channel
--   control  channel
--   wake     channel
-- reply:
--   record   text
--   payload  text
--   state    text
--   due      time
--   result   text
--   reason   text  the task as it is now, as read_tasks replies it
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has succeeded or failed; the detail is its state
-- repeat: harmless: a cancelled task stays as it is; the worker of a running one is asked again
-- full: works
local fields = state_of(member, redis.call('HGET', defs, member))
if not fields then
  return refuse('NOT_FOUND', member)
end
if fields.state == 'succeeded' or fields.state == 'failed' then
  return refuse('STATE', fields.state)
end

stop_task(member, by)
return read_task(member, nil)
