-- change: replaces the definition of a scheduled task, and its due time. A queued task becomes scheduled again, to make the same
-- attempt later. The caller deletes its delivery. If that stays, a worker of DTS cannot begin it, and what a server of asynq makes
-- of it counts for nothing, as the next delivery is of another claim.
-- includes: clock, number, refuse, state, definition, place, events, wheel, task
-- keys:
--   defs   HASH  the script makes further keys of the same partition
-- args:
--   member    member
--   before    text      the definition that the caller read
--   def       text      the new definition
--   run_at    time      none to keep the due time, or if delay is given
--   delay     maybe_ms  from now; none to keep the due time, or if run_at is given
--   recalled  attempt   for which the caller saw that the task is queued; 0 if it is not
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
--   STATE      the task is neither scheduled nor queued for the recalled attempt; the detail is its state
--   CHANGED    the definition is neither before nor def any more
-- repeat: harmless: the second run finds the new definition and writes it again; a delay counts from the second run
local record, text = redis.call('HGET', defs, member), redis.call('HGET', states_key(), member)
if not record then
  return refuse('NOT_FOUND', member)
end
local fields = parse_state(text or 'scheduled 0')
local queued = fields.state == 'queued' and fields.attempt == recalled
if fields.state ~= 'scheduled' and not queued then
  return refuse('STATE', fields.state)
end
local known, payload = def_of(record), nil
def, payload = split_payload(def)
if known ~= split_payload(before) and known ~= def then
  return refuse('CHANGED', member)
end

local due = fields.due or int(now)
if queued then
  fields.state, fields.attempt, fields.queued = 'scheduled', int(recalled - 1), nil
  redis.call('ZREM', queued_key(), member)
  redis.call('HSET', states_key(), member, format_state(fields))
else
  due = due_of(member, record)
  unschedule(member, record)
end
if run_at then
  due = math.max(run_at, now)
elseif delay then
  due = now + delay
end
redis.call('HSETNX', originals_key(), member, redis.sha1hex(before))
record = string.sub(record, 1, 13) .. def
redis.call('HSET', defs, member, record)
if payload then
  redis.call('HSET', payloads_key(), member, payload)
else
  redis.call('HDEL', payloads_key(), member)
end
announce('updated', member, 'scheduled', fields.attempt, '', record, ',"due":' .. int(due))
put_on_wheel(member, due)
return read_task(member, due)
