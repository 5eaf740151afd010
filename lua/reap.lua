-- reap: a leader ends the attempt of a worker that died: the next one is due at once, or there is none left.
-- includes: clock, number, refuse, fence, events, attempts, ended
-- keys:
--   lease     STRING
--   task      HASH
--   running   ZSET
--   attempts  LIST
--   wheel     ZSET
--   index     ZSET    the one of the state the task ends in
--   expiry    ZSET
-- args:
--   fence      fence    the lease's value while this leader holds it
--   member     member
--   attempt    attempt
--   run        run      token of the run that is lost
--   state      state    scheduled, failed or cancelled: what becomes of the task
--   reason     text
--   retention  ms       how long the task is kept, if it ends
--   events     channel
--   wake       channel
-- reply:
--   paused  flag  that was one failure too many in a row: it paused the schedule that created the task
-- refuses:
--   FENCED     somebody else leads the partition, or nobody
--   NOT_FOUND  no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
--   CANCELLED  it was asked to stop: end it as cancelled
-- repeat: refused with STATE or STALE: the first run did it
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
redis.call('HDEL', task, 'run') -- so that a late report of the lost run is not taken for a repetition of this end
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
