-- ending: ends attempts.
-- needs: arg events, arg wake
-- includes: clock, number, state, changes, wheel, events, attempts, ended

-- end_attempt ends the newest attempt of a task whose state has those fields. to is the task's state from now on: scheduled
-- for delay ms later, or a final one, in which the task is kept for retention ms. Returns true if it paused the schedule
-- that created the task, because too many of its tasks in a row failed.
local function end_attempt(member, record, fields, to, outcome, reason, delay, retention)
  local announced_as = ',"error":' .. cjson.encode(reason)
  if fields.state == 'queued' then
    remove_later(queued_key(), member)
  else
    remove_later(running_key(), member)
    remove_later(held_key(), member)
  end
  fields.started, fields.finished, fields.outcome = fields.started or int(now), int(now), outcome
  if reason ~= '' then
    set_later(errors_key(), member, reason)
  end
  fields.state = to
  if to == 'scheduled' then
    record_attempt(member, fields, reason)
    fields.first_due, fields.due = fields.first_due or fields.due, int(now + delay)
    fields.finished, fields.outcome = nil, nil
    set_later(states_key(), member, format_state(fields))
    announce(to, member, to, fields.attempt, node_of(fields.run), record, ',"due":' .. fields.due .. announced_as)
    put_on_wheel(member, fields.due)
    return false
  end
  set_later(states_key(), member, format_state(fields))
  put_later(index_key(string.match(member, '^[^:]+'), to), int(now), member)
  put_later(expiry_key(), int(now + retention), member)
  announce(to, member, to, fields.attempt, node_of(fields.run), record, reason ~= '' and announced_as or '')
  return task_ended(member, to)
end

