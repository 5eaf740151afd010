-- reap: a leader ends the attempt of a worker that died: the next one is due at once, or there is none left.
-- keys:
--   1 lease     STRING  of the partition
--   2 task      HASH
--   3 running   ZSET
--   4 attempts  LIST    JSON of every attempt that ended
--   5 wheel     ZSET    of the partition
--   6 index     ZSET    finished tasks of that namespace and of the state it will end in
--   7 expiry    ZSET
-- args:
--   1 fence      the lease's value while this leader holds it
--   2 member     "namespace:id"
--   3 attempt    number
--   4 run        token of the run that is lost
--   5 state      scheduled, failed or cancelled: what becomes of the task
--   6 error      text
--   7 retention  ms
--   8 keep       attempts remembered
--   9 events     channel
--   10 wake      channel that leaders listen to
-- reply: 1; 2 if that paused the schedule the task belongs to
-- refuses:
--   FENCED     somebody else leads the partition, or nobody
--   NOTFOUND   no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
--   CANCELLED  it was asked to stop: end it as cancelled
-- repeat: refused with STATE or STALE: the first run did it
local lease, task, running, attempts, wheel, index, expiry =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local fence, member, attempt, run, to, err, retention, keep, events, wake = unpack(ARGV)

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end
local state, current, owner, node, started, cancel, def =
  unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'started', 'cancel', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end
if cancel and to ~= 'cancelled' then
  return refuse('CANCELLED', member)
end

local now = now_ms()
redis.call('HSET', task, 'state', to, 'error', err)
redis.call('HDEL', task, 'run') -- so that what the lost run still says is not taken for a repetition of this
redis.call('ZREM', running, member)
record_attempt(attempts, attempt, node, started, now, 'lost', err, keep)
if to == 'scheduled' then
  redis.call('HSET', task, 'due', int(now))
  redis.call('ZADD', wheel, int(now), member)
else
  redis.call('HSET', task, 'finished', int(now))
  redis.call('ZADD', index, int(now), member)
  redis.call('ZADD', expiry, int(now + tonumber(retention)), member)
end
announce(events, to, member, to, attempt, node, now, def, ',"error":' .. cjson.encode(err))
if to == 'scheduled' then
  return 1
end
return settle(partition_of(task, member), member, to, now, wake) and 2 or 1
