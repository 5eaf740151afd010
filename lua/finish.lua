-- finish: the running attempt ended, and the task with it.
-- keys:
--   1 task      HASH
--   2 running   ZSET
--   3 attempts  LIST  JSON of every attempt that ended
--   4 index     ZSET  finished tasks of that namespace and state, scored by the ms of their end
--   5 expiry    ZSET  finished tasks of the partition, scored by the ms at which they are forgotten
-- args:
--   1 member     "namespace:id"
--   2 attempt    number
--   3 run        token of the run that ended
--   4 state      succeeded, failed or cancelled
--   5 outcome    of the attempt
--   6 result     text, "" for none
--   7 error      text, "" for none
--   8 retention  ms
--   9 keep       attempts remembered
--   10 events    channel
--   11 wake      channel that leaders listen to
-- reply: 1, or 0 if this very end was reported before
-- refuses:
--   NOTFOUND   no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
--   CANCELLED  it failed after it had been asked to stop: report it as cancelled
-- repeat: harmless: the end of a run that has ended already changes nothing
local task, running, attempts, index, expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local member, attempt, run, final, outcome, result, err, retention, keep, events, wake = unpack(ARGV)

local state, current, owner, node, started, cancel, def =
  unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'started', 'cancel', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state == final and current == attempt and owner == run then
  return 0
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end
if cancel and final == 'failed' then
  return refuse('CANCELLED', member)
end

local now = now_ms()
redis.call('HSET', task, 'state', final, 'finished', int(now), 'result', result, 'error', err)
redis.call('ZREM', running, member)
record_attempt(attempts, attempt, node, started, now, outcome, err, keep)
redis.call('ZADD', index, int(now), member)
redis.call('ZADD', expiry, int(now + tonumber(retention)), member)
announce(events, final, member, final, attempt, node, now, def, err ~= '' and ',"error":' .. cjson.encode(err) or '')
settle(partition_of(task, member), member, final, now, wake)
return 1
