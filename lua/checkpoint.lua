-- checkpoint: saves the checkpoint of the running attempt, for the attempts that follow it.
-- includes: running, progress
-- keys:
--   states       HASH  the script makes further keys of the same partition
--   checkpoints  HASH
-- args:
--   member      member
--   attempt     attempt  the attempt that reports
--   run         run      of the run that reports
--   checkpoint  text     JSON
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: it saves the same checkpoint again
-- full: refused
local refused, fields = check_running()
if refused then
  return refused
end

fields.progress = with_mark(fields.progress)
redis.call('HSET', states, member, format_state(fields))
redis.call('HSET', checkpoints, member, checkpoint)
return {}
