-- cancel: somebody wants the task not to run. A waiting one ends at once; a running one is told to stop.
-- keys:
--   1 task      HASH
--   2 wheel     ZSET
--   3 queued    ZSET
--   4 inflight  ZSET
--   5 index     ZSET  cancelled tasks of that namespace, scored by the ms of their end
--   6 expiry    ZSET  finished tasks of the partition, scored by the ms at which they are forgotten
-- args:
--   1 member     "namespace:id"
--   2 retention  ms
--   3 events     channel
--   4 control    channel that workers listen to
-- reply: HGETALL of the task as it is now
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task has ended; the detail is its state
-- repeat: harmless: a cancelled task stays cancelled, a running one is told again
local task, wheel, queued, inflight, index, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local member, retention, events, control = unpack(ARGV)

local state, attempt, cancel, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'cancel', 'node', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state == 'cancelled' then
  return redis.call('HGETALL', task)
end
if state ~= 'scheduled' and state ~= 'queued' and state ~= 'running' then
  return refuse('STATE', state)
end

local now = now_ms()
if state == 'running' then
  if not cancel then
    redis.call('HSET', task, 'cancel', int(now))
    announce(events, 'cancelling', member, state, attempt, node, now, def, '')
  end
  redis.call('PUBLISH', control, member .. ':' .. attempt)
  return redis.call('HGETALL', task)
end
redis.call('HSET', task, 'state', 'cancelled', 'finished', int(now))
redis.call('ZREM', wheel, member)
redis.call('ZREM', queued, member)
if attempt then
  redis.call('ZREM', inflight, member .. ':' .. attempt)
end
redis.call('ZADD', index, int(now), member)
redis.call('ZADD', expiry, int(now + tonumber(retention)), member)
announce(events, 'cancelled', member, 'cancelled', attempt or '0', node, now, def, '')
return redis.call('HGETALL', task)
