-- create: a new task waits on the wheel.
-- keys:
--   1 task   HASH  the task, which does not exist yet
--   2 wheel  ZSET  of the task's partition
-- args:
--   1 member     "namespace:id"
--   2 def        the definition: a line of JSON, a line break, the payload
--   3 run_at     ms since 1970, or "" to count from now
--   4 delay      ms from now, where run_at is ""
--   5 events     channel
--   6 wake       channel that leaders listen to
--   7 partition  number, told on the wake channel
-- reply: {1, created ms} for a new task; {0, HGETALL} for the same task submitted before
-- refuses:
--   CONFLICT  the id is taken by a task with other content
-- repeat: harmless: the second run finds the same content and answers the task
local task, wheel = KEYS[1], KEYS[2]
local member, def, run_at, delay, events, wake, partition = unpack(ARGV)

local known, original = unpack(redis.call('HMGET', task, 'def', 'original'))
if known then
  if known ~= def and original ~= redis.sha1hex(def) then
    return refuse('CONFLICT', 'the id is taken')
  end
  return { 0, redis.call('HGETALL', task) }
end

local now = now_ms()
local due = run_at ~= '' and tonumber(run_at) or now + tonumber(delay)
redis.call('HSET', task, 'state', 'scheduled', 'created', int(now), 'def', def)
redis.call('ZADD', wheel, int(due), member)
announce(events, 'scheduled', member, 'scheduled', '0', '', now, def, ',"due":' .. int(due))
if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
  redis.call('PUBLISH', wake, partition)
end
return { 1, now }
