-- reap: a leader ends the running attempt of a worker that died or has lost the attempt. The next attempt is due at once, or the task ends.
-- includes: clock, number, refuse, fence, events, attempts, ended
-- keys:
--   lease     STRING
--   task      HASH
--   running   ZSET
--   attempts  LIST
--   wheel     ZSET
--   index     ZSET    of the state in which the task ends
--   expiry    ZSET
-- args:
--   fence      fence    value of the lease while this leader holds it
--   member     member
--   attempt    attempt
--   run        run      of the run that is lost
--   state      state    of the task from now on: scheduled, failed or cancelled
--   reason     text
--   retention  ms       how long the task is kept if it ends
--   events     channel
--   wake       channel
-- reply:
--   paused  flag  the script paused the schedule that created the task: too many of its tasks in a row failed
-- refuses:
--   FENCED     another leader holds the lease of the partition, or none does
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
--   CANCELLED  the task was asked to stop: end it as cancelled
-- repeat: refused with STATE or STALE, because the first run ended the attempt
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local current_state, current, owner, node, started, cancel, def =
  unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'started', 'cancel', 'def'))
if not current_state then
  return refuse('NOT_FOUND', member)
end
if current_state ~= 'running' then
  return refuse('STATE', current_state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end
if cancel and state ~= 'cancelled' then
  return refuse('CANCELLED', member)
end

redis.call('HSET', task, 'state', state, 'error', reason)
redis.call('HDEL', task, 'run') -- a late report of the lost run must not pass for a repetition of this end
redis.call('ZREM', running, member)
record_attempt(attempt, node, started, 'lost', reason)
if state == 'scheduled' then
  redis.call('HSET', task, 'due', int(now))
  redis.call('ZADD', wheel, int(now), member)
else
  redis.call('HSET', task, 'finished', int(now))
  redis.call('ZADD', index, int(now), member)
  redis.call('ZADD', expiry, int(now + retention), member)
end
announce(state, member, state, attempt, node, def, ',"error":' .. cjson.encode(reason))
if state == 'scheduled' then
  return { 0 }
end
return { task_ended(member, state) and 1 or 0 }
