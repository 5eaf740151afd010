-- move: asks the worker of a running task to give it up, so that another worker goes on. A second request counts if it
-- names another node. A task that was asked to stop stays as it is.
-- includes: clock, number, refuse, running, state, events, task
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   member   member
--   attempt  attempt  that is to move
--   run      run      of the attempt
--   to       text     the id or the name of the node to which it is to go; "" for any other one
--   by       text     who asks for it, without blanks and colons; "" if nobody knows
--   events   channel
--   control  channel
-- reply:
--   record   text
--   payload  text
--   state    text
--   due      time
--   result   text
--   reason   text  the task as it is now, as read_tasks replies it
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: the worker is asked again
-- full: works
local refused, fields, record = check_running()
if refused then
  return refused
end

if not fields.cancel then
  if not fields.moving or to ~= '' and to ~= string.match(fields.moving, '^%d+:([^:]*)') then
    fields.moving = int(now) .. ':' .. to .. ':' .. by
    redis.call('HSET', states, member, format_state(fields))
    announce('moving', member, fields.state, attempt, node_of(run), record, '')
  end
  redis.call('PUBLISH', control, member .. ':' .. attempt)
end
return read_task(member, nil)
