-- change: replaces the definition of a scheduled task, and its due time. A queued task becomes scheduled again, to make the same
-- attempt later. The caller deletes its delivery. If that stays, a worker of DTS cannot begin it, and what a server of asynq makes
-- of it counts for nothing, as the next delivery is of another claim.
-- includes: clock, number, refuse, state, definition, place, events, holders, wheel, noted, starting
-- keys:
--   defs   HASH  the script makes further keys of the same partition
-- args:
--   member    member
--   before    text      the definition that the caller read, as it is stored
--   original  text      the SHA-1 of all of it, which is kept of the first definition
--   def       text      the new definition, as it is stored
--   payload   text      its payload if that is stored apart and differs from the one before, else ""
--   run_at    time      none to keep the due time, or if delay is given
--   delay     maybe_ms  from now; none to keep the due time, or if run_at is given
--   recalled  attempt   for which the caller saw that the task is queued; 0 if it is not
--   events    channel
--   wake      channel
-- reply:
--   record  text
--   state   text
--   due     time
--   result  text
--   reason  text  the task as it is now, as read_tasks replies it, without the payload, which the caller knows
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is neither scheduled nor queued for the recalled attempt; the detail is its state, "unreadable" if
--     that is lost
--   CHANGED    the definition is neither before nor def any more
-- repeat: harmless: the second run finds the new definition and writes it again; a delay counts from the second run
-- full: refused
local record, text = redis.call('HGET', defs, member), redis.call('HGET', states_key, member)
if not record then
  return refuse('NOT_FOUND', member)
end
local fields = parse_state(text or 'scheduled 0')
local queued = fields.state == 'queued' and fields.attempt == recalled
if fields.state ~= 'scheduled' and not queued then
  return refuse('STATE', fields.state)
end
if not text and not due_unclaimed(member, record) then -- its state is lost, and it may have run
  return refuse('STATE', 'unreadable')
end
local known = def_of(record)
if known ~= before and known ~= def then
  return refuse('CHANGED', member)
end

local due = fields.due or int(now)
if queued then
  fields.state, fields.attempt, fields.queued = 'scheduled', int(recalled - 1), nil
  redis.call('ZREM', queued_key, member)
  free_slots(member, limits_of_fields(fields))
  redis.call('HSET', states_key, member, format_state(fields))
else
  due = due_of(member, record) or due
  unschedule(member, record)
end
if run_at then
  due = math.max(run_at, now)
elseif delay then
  due = now + delay
end
if payload_part(record) ~= payload_part(string.sub(record, 1, 13) .. def) then
  redis.call('HDEL', checkpoints_key, member) -- it says how far other work has got
end
redis.call('HSETNX', originals_key, member, original)
record = string.sub(record, 1, 13) .. def
redis.call('HSET', defs, member, record)
if payload ~= '' then
  redis.call('HSET', payloads_key, member, payload)
elseif not is_apart(record) then
  redis.call('HDEL', payloads_key, member)
end
announce('updated', member, 'scheduled', fields.attempt, '', record, when_due(record, tonumber(due)))
put_on_wheel(member, due, away.reach(fields) ~= nil)
note_start_by(member, record, due)
note_row(member)
return {
  without_payload(record), redis.call('HGET', states_key, member) or '', due,
  redis.call('HGET', results_key, member) or '', redis.call('HGET', errors_key, member) or '',
}
