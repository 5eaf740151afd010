-- retry: the running attempt ended without success, and the task waits on the wheel for the next one.
-- keys:
--   1 task      HASH
--   2 running   ZSET
--   3 attempts  LIST  JSON of every attempt that ended
--   4 wheel     ZSET
-- args:
--   1 member     "namespace:id"
--   2 attempt    number
--   3 run        token of the run that ended
--   4 delay      ms until the next attempt is due
--   5 outcome    of the attempt
--   6 error      text
--   7 keep       attempts remembered
--   8 events     channel
--   9 wake       channel that leaders listen to
--   10 partition number, told on the wake channel
-- reply: 1, or 0 if this very end was reported before
-- refuses:
--   NOTFOUND   no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
--   CANCELLED  it was asked to stop: report it as cancelled
-- repeat: harmless: the end of a run that has ended already changes nothing
local task, running, attempts, wheel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, attempt, run, delay, outcome, err, keep, events, wake, partition = unpack(ARGV)

local state, current, owner, node, started, cancel, def =
  unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'started', 'cancel', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state == 'scheduled' and current == attempt and owner == run then
  return 0
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

local now = now_ms()
local due = int(now + tonumber(delay))
redis.call('HSET', task, 'state', 'scheduled', 'due', due, 'error', err)
redis.call('ZREM', running, member)
record_attempt(attempts, attempt, node, started, now, outcome, err, keep)
redis.call('ZADD', wheel, due, member)
announce(events, 'scheduled', member, 'scheduled', attempt, node, now, def,
  ',"due":' .. due .. ',"error":' .. cjson.encode(err))
if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
  redis.call('PUBLISH', wake, partition)
end
return 1
