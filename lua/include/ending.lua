-- ending: ends attempts.
-- needs: arg events, arg wake
-- includes: clock, number, state, changes, wheel, noted, events, error_event, attempts, ended, holders, asker, outbox, list_ended

local ended_at = int(now)

-- keep_ended records that a task has ended in that state: where it is listed, and until when. Returns true if it paused the
-- schedule that created the task, because too many of its tasks in a row failed. text is a state of the task that says when the attempt began.
local function keep_ended(member, record, state, attempt, run, reason, retention, text)
  reason = with_asker(member, state, reason)
  if reason ~= '' then
    set_later(errors_key, member, reason)
  end
  list_ended(member, state, ended_at, retention)
  note_row(member)
  if is_marked(text) then
    owe_follow_up(member, attempt, state, ended_at)
  end
  if followed then
    announce(state, member, state, attempt, node_of(run), record, error_of(reason))
  end
  return task_ended(member, state, text)
end

-- forget_checkpoint deletes the checkpoint of a task that succeeded.
local function forget_checkpoint(member, state)
  if state == 'succeeded' then
    delete_later(checkpoints_key, member)
  end
end

-- end_task ends a running task, whose state is that text, together with its attempt. text_after is its state from now on. cancel is ''
-- unless it was asked to stop. The attempt saved no checkpoint, or read_running would not have read the text; an earlier one may have.
-- Returns what keep_ended returns.
local function end_task(member, record, text, text_after, state, attempt, run, reason, retention, cancel)
  if cancel ~= '' and state == 'succeeded' then -- who asked it to stop came too late
    delete_later(errors_key, member)
  end
  if attempt ~= '1' then
    forget_checkpoint(member, state)
  end
  remove_later(running_key, member)
  remove_later(held_key, member)
  free_slots(member, limits_in(text))
  set_later(states_key, member, text_after)
  return keep_ended(member, record, state, attempt, run, reason, retention, text)
end

-- end_attempt ends the newest attempt of a queued or running task whose state has those fields. to is its state from now on: scheduled
-- for delay ms later, or a final one, in which it is kept for retention ms. Returns what keep_ended returns.
local function end_attempt(member, record, fields, to, outcome, reason, delay, retention)
  if fields.state == 'queued' then
    remove_later(queued_key, member)
  else
    remove_later(running_key, member)
    remove_later(held_key, member)
  end
  free_slots(member, limits_of_fields(fields))
  fields.moving = outcome == 'moved' and (fields.moving or '0::') .. ':' .. node_of(fields.run) or nil
  fields.state, fields.started, fields.finished, fields.outcome = to, fields.started or ended_at, ended_at, outcome
  if to ~= 'scheduled' then
    forget_checkpoint(member, to)
    local text = format_state(fields)
    set_later(states_key, member, text)
    return keep_ended(member, record, to, fields.attempt, fields.run, reason, retention, text)
  end
  if reason ~= '' then
    set_later(errors_key, member, reason)
  end
  record_attempt(member, fields, reason)
  fields.first_due, fields.due = fields.first_due or fields.due, int(now + delay)
  fields.finished, fields.outcome = nil, nil
  set_later(states_key, member, format_state(fields))
  if followed then
    announce(to, member, to, fields.attempt, node_of(fields.run), record, ',"due":' .. fields.due .. error_of(reason))
  end
  put_on_wheel(member, fields.due, fields.moving)
  note_row(member)
  return false
end

