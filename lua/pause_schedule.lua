-- pause_schedule: a schedule creates no more tasks for now. Those it has created go on.
-- includes: clock, number, refuse
-- keys:
--   schedule  HASH
--   ticks     ZSET
-- args:
--   member  member
--   note    text    who, and why; "" keeps the note there is
-- reply:
--   schedule  hash  the schedule as it is now
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: it stays paused since the first time
local revision, paused, note_before = unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'note'))
if not revision then
  return refuse('NOT_FOUND', member)
end

redis.call('HSET', schedule, 'paused', paused or int(now), 'note', note ~= '' and note or note_before or '')
redis.call('ZREM', ticks, member)
return { redis.call('HGETALL', schedule) }
