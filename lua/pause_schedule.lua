-- pause_schedule: keeps a schedule from creating tasks until it is resumed. The tasks that exist go on.
-- includes: clock, number, refuse, tell
-- keys:
--   schedule  HASH
--   ticks     ZSET
-- args:
--   member   member
--   note     text    why; "" keeps the note of an earlier pause
--   by       text    who pauses it, "" if nobody knows
--   changes  channel
-- reply:
--   schedule  hash  the schedule as it is now
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: the schedule stays paused since the first run
-- full: works
local revision, paused, note_before = unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'note'))
if not revision then
  return refuse('NOT_FOUND', member)
end

if not paused or note ~= '' then -- whoever writes the note is who is named beside it
  redis.call('HSET', schedule, 'paused_by', (paused or int(now)) .. ' ' .. by)
end
redis.call('HSET', schedule, 'paused', paused or int(now), 'note', note ~= '' and note or note_before or '')
redis.call('ZREM', ticks, member)
if not paused or note ~= '' and note ~= note_before then
  tell({ type = 'schedule.paused', ref = member, at = int(now), revision = revision, by = by, note = note })
end
return { redis.call('HGETALL', schedule) }
