-- retry: puts a task that has ended back on the wheel, with its full number of attempts again.
-- includes: clock, number, refuse, state, task, scheduled_tick, damage, track, again, asks
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   member    member
--   attempts  number   how many further attempts the task may make
--   delay     ms       until the next attempt is due; 0: at once
--   ended     time     the end that the caller means: a task with another one stays; none for whichever it has
--   tick      time     of the tick whose task this is, which its schedule then counts as live again; none for other tasks
--   ask       text     of a run of a workflow: what is asked of it when it begins again; "" for nothing
--   events    channel
--   wake      channel
-- reply:
--   record   text
--   payload  text
--   state    text
--   due      time
--   result   text
--   reason   text  the task as it is now, as read_tasks replies it
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has not ended, or has another end; the detail is its state
-- repeat: refused with STATE, because the first run scheduled the task
-- full: refused
local record, text = redis.call('HGET', defs_key, member), redis.call('HGET', states, member)
if not record then
  return refuse('NOT_FOUND', member)
end
local fields = parse_state(text or 'scheduled 0')
if not fields.finished or ended and tonumber(fields.finished) ~= ended then
  return refuse('STATE', fields.state)
end

local due = now + delay
start_over(member, record, fields, attempts, due)
if tick then
  live_again(member, tick)
  try(record_again, member, fields.state, fields.finished, fields.attempt)
end
local signals = signals_of(member) -- of what was asked of an attempt that was cancelled before it began
redis.call('HDEL', asks_key, member)
if signals ~= '' then
  redis.call('HSET', asks_key, member, signals)
end
if ask ~= '' then
  ask_run(member, ask)
end
return read_task(member, due)
