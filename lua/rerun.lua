-- rerun: a finally ended task waits on the wheel again, due now, with as many attempts as it had at first.
-- keys:
--   1 task    HASH
--   2 index   ZSET  finished tasks of that namespace and of the state it is in
--   3 expiry  ZSET
--   4 wheel   ZSET
-- args:
--   1 member     "namespace:id"
--   2 state      the state it is in, to which the index belongs
--   3 attempts   how many it may make, counted on from the ones it has made
--   4 events     channel
--   5 wake       channel that leaders listen to
--   6 partition  number, told on the wake channel
--   7 tick       ms, if it is the task of a tick: its schedule then counts it as not ended again; else ""
-- reply: HGETALL of the task as it is now
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task has not ended, or ended otherwise; the detail is its state
-- repeat: refused with STATE scheduled (or whatever came after): the first run did it
local task, index, expiry, wheel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, from, attempts, events, wake, partition, tick = unpack(ARGV)

local state, attempt, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state ~= from then
  return refuse('STATE', state)
end

local now = now_ms()
attempt = attempt or '0'
redis.call('HSET', task, 'state', 'scheduled', 'due', int(now), 'allowed', int(attempt + attempts))
redis.call('HDEL', task, 'finished', 'cancel', 'result', 'error', 'progress')
redis.call('ZREM', index, member)
redis.call('ZREM', expiry, member)
redis.call('ZADD', wheel, int(now), member)
if tick ~= '' then
  local p, schedule, name = partition_of(task, member), string.match(member, '^([^@]+)@(.+)$')
  local backfilled = false -- which does not count for overlap
  for _, entry in ipairs(redis.call('ZRANGE', p .. 'ledger:' .. schedule, tick, tick, 'BYSCORE')) do
    local its, outcome = string.match(entry, '^(%S+) (%S+)')
    backfilled = backfilled or its == name and outcome == 'backfilled'
  end
  if not backfilled and redis.call('EXISTS', p .. 'schedule:' .. schedule) == 1 then
    redis.call('ZADD', p .. 'live:' .. schedule, tick, name)
  end
end
announce(events, 'scheduled', member, 'scheduled', attempt, '', now, def, ',"due":' .. int(now))
if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
  redis.call('PUBLISH', wake, partition)
end
return redis.call('HGETALL', task)
