-- retry: puts a task that has ended back on the wheel, with its full number of attempts again.
-- includes: clock, number, refuse, state, attempts, events, wheel, noted, task, scheduled_tick, damage, track, starting,
--   asks
-- keys:
--   states  HASH  the script makes further keys of the same partition
--   expiry  ZSET
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

-- unlist removes the task from those that are listed in a state.
local function unlist(state)
  redis.call('ZREM', index_key(string.match(member, '^[^:]+'), state), member)
end

local due = now + delay
if fields.outcome then -- a task can end without an attempt
  record_attempt(member, fields, redis.call('HGET', errors_key, member) or '')
end
redis.call('HSET', states, member, format_state({
  state = 'scheduled', attempt = fields.attempt, max_attempts = int(fields.attempt + attempts), due = int(due),
}))
redis.call('HDEL', results_key, member)
redis.call('HDEL', errors_key, member)
try(unlist, fields.state)
redis.call('ZREM', expiry, member)
if tick then
  live_again(member, tick)
  try(record_again, member, fields.state, fields.finished, fields.attempt)
end
if ask ~= '' then
  ask_run(member, ask)
end
announce('scheduled', member, 'scheduled', fields.attempt, '', record, ',"due":' .. int(due))
put_on_wheel(member, due)
note_start_by(member, record, due)
note_row(member)
return read_task(member, due)
