-- running: the guard of what is written about a running attempt.
-- needs: key states, arg member, arg attempt, arg run
-- includes: refuse, state

-- check_running returns the refusal, or nil, the fields of the task's state and its record. With any_run, the run does not count.
local function check_running(any_run)
  local record, text = redis.call('HGET', defs_key, member), redis.call('HGET', states, member)
  if not record then
    return refuse('NOT_FOUND', member)
  end
  local fields = parse_state(text or 'scheduled 0')
  if fields.state ~= 'running' then
    return refuse('STATE', fields.state)
  end
  if fields.attempt ~= attempt or (fields.run ~= run and not any_run) then
    return refuse('STALE', fields.attempt)
  end
  return nil, fields, record
end
