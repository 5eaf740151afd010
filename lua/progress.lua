-- progress: records the progress of the running attempt.
-- includes: refuse, events
-- keys:
--   task  HASH
-- args:
--   member    member
--   attempt   attempt  the attempt that reports
--   run       run      of the run that reports, or "" for a report on its behalf
--   progress  number   percent, 0 to 100
--   events    channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: it records the same progress again
local state, current, current_run, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or (run ~= '' and current_run ~= run) then
  return refuse('STALE', current)
end

redis.call('HSET', task, 'progress', progress)
announce('progress', member, state, attempt, node, def, ',"progress":' .. progress)
return {}
