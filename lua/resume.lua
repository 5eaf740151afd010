-- resume: a paused schedule goes on. The ticks since then are misfires; the leader looks at them at once.
-- keys:
--   1 schedule  HASH
-- args:
--   1 member  "namespace:id"
--   2 wake    channel that leaders listen to
-- reply: HGETALL of the schedule as it is now
-- refuses:
--   NOTFOUND  no such schedule
-- repeat: harmless: one that is not paused stays so
local schedule = KEYS[1]
local member, wake = unpack(ARGV)

local revision, paused, rest, cursor = unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'rest', 'cursor'))
if not revision then
  return refuse('NOTFOUND', member)
end
if not paused then
  return redis.call('HGETALL', schedule)
end

local now = now_ms()
local from, ended = string.match(rest or '', '^(%d+) (%d+)$')
if from and tonumber(ended) > tonumber(cursor) then -- the ticks of the pause before are not decided yet
  paused = from
end
redis.call('HSET', schedule, 'rest', paused .. ' ' .. int(now))
redis.call('HDEL', schedule, 'paused', 'note', 'failures')
look_at(partition_of(schedule, member), member, now, wake)
return redis.call('HGETALL', schedule)
