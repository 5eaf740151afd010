-- reattempt: ends the running attempt without success; the task waits on the wheel for the next one.
-- includes: clock, number, refuse, events, attempts, wheel
-- keys:
--   task      HASH
--   running   ZSET
--   attempts  LIST
--   wheel     ZSET
-- args:
--   member   member
--   attempt  attempt
--   run      run      of the run that ended
--   delay    ms       until the next attempt is due
--   outcome  outcome  of the attempt
--   reason   text
--   events   channel
--   wake     channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
--   CANCELLED  the task was asked to stop: report it as cancelled
-- repeat: harmless: a run that has ended in this way changes nothing
local state, current, owner, node, started, cancel, def =
  unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'started', 'cancel', 'def'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state == 'scheduled' and current == attempt and owner == run then
  return {}
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end
if cancel then
  return refuse('CANCELLED', member)
end

local due = int(now + delay)
redis.call('HSET', task, 'state', 'scheduled', 'due', due, 'error', reason)
redis.call('ZREM', running, member)
record_attempt(attempt, node, started, outcome, reason)
announce('scheduled', member, 'scheduled', attempt, node, def, ',"due":' .. due .. ',"error":' .. cjson.encode(reason))
put_on_wheel(member, due)
return {}
