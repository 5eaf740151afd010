-- pause: somebody wants a schedule to create no more tasks for now. Those it has created go on.
-- keys:
--   1 schedule  HASH
--   2 ticks     ZSET  "namespace:id", scored by the ms at which the leader looks at the schedule
-- args:
--   1 member  "namespace:id"
--   2 note    who, and why; "" leaves the one there is
-- reply: HGETALL of the schedule as it is now
-- refuses:
--   NOTFOUND  no such schedule
-- repeat: harmless: it stays paused since the first time
local schedule, ticks = KEYS[1], KEYS[2]
local member, note = unpack(ARGV)

local revision, paused, before = unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'note'))
if not revision then
  return refuse('NOTFOUND', member)
end

redis.call('HSET', schedule, 'paused', paused or int(now_ms()), 'note', note ~= '' and note or before or '')
redis.call('ZREM', ticks, member)
return redis.call('HGETALL', schedule)
