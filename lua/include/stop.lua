-- stop: cancels tasks.
-- needs: arg events, arg control, arg wake
-- includes: clock, number, state, place, noted, events, ended, damage, holders, asker, definition, claimed, outbox

-- retention_of returns how long a cancelled task is kept, in ms.
local function retention_of(record)
  local readable, head = pcall(cjson.decode, head_of(record))
  return readable and type(head) == 'table' and head.retention or DEFAULT_RETENTION
end

-- tell_to_stop asks the worker of a running task to stop it, or the leader that carries on a run of a workflow.
local function tell_to_stop(member, record, fields, by)
  if not fields.cancel then
    note_asker(member, 'asked to stop', by)
    fields.cancel = int(now)
    redis.call('HSET', states_key, member, format_state(fields))
    announce('cancelling', member, fields.state, fields.attempt, node_of(fields.run), record, '')
  end
  if fields.run == FLOW_RUN then
    redis.call('ZADD', outbox_key, 'LT', int(now), 'plan ' .. member)
    wake_leader('follow')
  else
    redis.call('PUBLISH', control, member .. ':' .. fields.attempt)
  end
end

-- list_cancelled lists a cancelled task where those of its namespace are listed.
local function list_cancelled(member)
  redis.call('ZADD', index_key(string.match(member, '^[^:]+'), 'cancelled'), int(now), member)
end

-- end_waiting cancels a scheduled or queued task.
local function end_waiting(member, record, fields, by)
  note_asker(member, 'cancelled', by)
  free_slots(member, fields.state == 'queued' and limits_of_fields(fields) or nil)
  local attempts = fields.state == 'queued' and int(fields.attempt - 1) or fields.attempt
  fields.due = due_of(member, record) or fields.due
  unschedule(member, record) -- goes by the limits in the state, as it is now
  fields.state, fields.finished = 'cancelled', int(now)
  if has_follow_up(head_of(record)) then
    fields.max_attempts = string.match(fields.max_attempts or '0', '%d+') .. '>'
    owe_follow_up(member, fields.attempt, 'cancelled', now)
  end
  redis.call('HSET', states_key, member, format_state(fields))
  redis.call('ZREM', queued_key, member)
  try(list_cancelled, member)
  note_row(member)
  redis.call('ZADD', expiry_key, int(now + retention_of(record)), member)
  announce('cancelled', member, 'cancelled', fields.attempt, node_of(fields.run), record, '')
  task_ended(member, 'cancelled', 'scheduled ' .. attempts)
end

-- state_of returns the fields of a task's state; nil if there is no such task. The state is "unreadable" if it is
-- none, and if it is lost: a task that was never claimed has no state, and waits.
local function state_of(member, record)
  local text = record and redis.call('HGET', states_key, member)
  if record and (text and not is_state(text) or not text and not due_unclaimed(member, record)) then
    return { state = 'unreadable' }
  end
  return record and parse_state(text or 'scheduled 0')
end

-- stop_task cancels a scheduled or queued task, and asks the worker of a running one to stop it. Other tasks stay as
-- they are. by is who wants it, '' if nobody knows.
local function stop_task(member, by)
  local record = redis.call('HGET', defs_key, member)
  local fields = state_of(member, record)
  if not fields then
    return
  end
  if fields.state == 'running' then
    tell_to_stop(member, record, fields, by)
  elseif fields.state == 'scheduled' or fields.state == 'queued' then
    end_waiting(member, record, fields, by)
  end
end

