-- progress: the running attempt says how far it is.
-- includes: refuse, events
-- keys:
--   task  HASH
-- args:
--   member    member
--   attempt   attempt  the attempt that reports
--   run       run      token of the run that reports, or "" where somebody reports in its name
--   progress  number   percent, 0 to 100
--   events    channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
-- repeat: harmless: it says the same again
local state, current, owner, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or (run ~= '' and owner ~= run) then
  return refuse('STALE', current)
end

redis.call('HSET', task, 'progress', progress)
announce('progress', member, state, attempt, node, def, ',"progress":' .. progress)
return {}
