-- reclaim: attempts that have begun, and of which Redis has lost that, as after a failover to a replica that was behind.
-- includes: number, refuse, state, claimed, place, definition, hold_again

-- unbegun_state returns the state of a task for which an attempt, claimed at queued (ms), has begun and Redis does not know that: as it is
-- when the task is queued for that attempt. nil if another run may have begun it, or the task is a later one of the same name. A task
-- whose claim is lost, too, leaves the place where it waits.
local function unbegun_state(member, text, attempt, queued)
  local fields = parse_state(text or 'scheduled 0')
  local claimed = fields.state == 'queued' and fields.attempt == attempt
  if not claimed and not (fields.state == 'scheduled' and fields.attempt + 1 == tonumber(attempt)) then
    return nil
  end
  local record = redis.call('HGET', defs_key, member)
  if not record or (tonumber(string.sub(record, 1, 13)) or 0) > (queued or 0) then
    return nil
  end
  if claimed then
    return text
  end
  local due = due_of(member, record) or int(queued)
  unschedule(member, record)
  local limits = limits_in(text or '') -- under which it has waited
  hold_again(member, limits)
  return (claimed_state(text, due, int(queued), head_of(record), limits))
end

-- not_current returns why a run is not the one that its task, whose state is that text, shows as running; if it is, nil and the fields of
-- the state. A task that is scheduled for an attempt before that of the run counts as one with another attempt: Redis has lost more than
-- one of its attempts.
local function not_current(member, text, attempt, run)
  if not text and redis.call('HEXISTS', defs_key, member) == 0 then
    return refuse('NOT_FOUND', member)
  end
  local fields = parse_state(text or 'scheduled 0')
  local behind = fields.state == 'scheduled' and fields.attempt + 1 < tonumber(attempt)
  if fields.state ~= 'running' and fields.state ~= 'queued' and not behind then
    return refuse('STATE', fields.state)
  end
  if fields.state ~= 'running' or fields.attempt ~= attempt or fields.run ~= run then
    return refuse('STALE', fields.attempt)
  end
  return nil, fields
end
