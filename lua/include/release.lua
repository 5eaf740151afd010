-- release: releases the tasks of steps of runs of workflows.
-- needs: key defs, arg events, arg wake
-- includes: clock, number, state, changes, definition, events, noted, creation, attempts, again, outbox

-- release creates the task of a step. If there is one already, Redis has lost that it was released, or the run with it:
-- it stays as it is, and the run is told if it has ended.
local function release(member, def)
  local record = redis.call('HGET', defs, member)
  if not record then
    create_task(member, given_task(def, now, def))
    return
  end
  local fields = parse_state(redis.call('HGET', states_key, member) or 'scheduled 0')
  if fields.finished then
    owe_follow_up(member, fields.attempt, fields.state, now)
  end
end

-- release_again puts the task of a step that has ended back on the wheel for so many further attempts. If it is gone,
-- it is created.
local function release_again(member, def, attempts)
  local record = redis.call('HGET', defs, member)
  local fields = record and parse_state(redis.call('HGET', states_key, member) or 'scheduled 0')
  if not record then
    create_task(member, given_task(def, now, def))
  elseif fields.finished then
    begin_again(member, record, def, fields, tonumber(attempts))
  end
end
