-- update: a waiting task gets another time, queue or payload.
-- keys:
--   1 task   HASH
--   2 wheel  ZSET
-- args:
--   1 member     "namespace:id"
--   2 before     the definition the change was made from
--   3 def        the definition with the change in it
--   4 run_at     ms since 1970, or "" to leave the time as it is
--   5 delay      ms from now, or "" to leave the time as it is
--   6 events     channel
--   7 wake       channel that leaders listen to
--   8 partition  number, told on the wake channel
-- reply: HGETALL of the task as it is now
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task does not wait on the wheel; the detail is its state
--   CHANGED   somebody else changed the definition in between
-- repeat: harmless: the second run finds the definition changed already and changes it to the same again
local task, wheel = KEYS[1], KEYS[2]
local member, before, def, run_at, delay, events, wake, partition = unpack(ARGV)

local state, known, original, attempt = unpack(redis.call('HMGET', task, 'state', 'def', 'original', 'attempt'))
if not state then
  return refuse('NOTFOUND', member)
end
if state ~= 'scheduled' then
  return refuse('STATE', state)
end
if known ~= before and known ~= def then
  return refuse('CHANGED', member)
end

local now = now_ms()
local due = redis.call('ZSCORE', wheel, member)
if run_at ~= '' then
  due = int(math.max(tonumber(run_at), now))
elseif delay ~= '' then
  due = int(now + tonumber(delay))
end
if not original then
  redis.call('HSET', task, 'original', redis.sha1hex(before))
end
redis.call('HSET', task, 'def', def, 'due', due)
redis.call('ZADD', wheel, due, member)
announce(events, 'updated', member, 'scheduled', attempt or '0', '', now, def, ',"due":' .. due)
if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
  redis.call('PUBLISH', wake, partition)
end
return redis.call('HGETALL', task)
