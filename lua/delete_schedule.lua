-- delete_schedule: deletes a paused schedule with its ledger and its history. Its tasks stay.
-- includes: clock, number, refuse, tell
-- keys:
--   schedule   HASH
--   schedules  ZSET
--   ticks      ZSET
--   history    LIST
--   live       ZSET
--   waiting    LIST
--   ledger     ZSET
--   asked      HASH
-- args:
--   member   member
--   by       text    who deletes it, "" if nobody knows
--   changes  channel
-- reply: nothing
-- refuses:
--   NOT_FOUND   no such schedule
--   NOT_PAUSED  the schedule is not paused, or was resumed in the meantime
-- repeat: refused with NOT_FOUND
-- full: works
local revision, paused = unpack(redis.call('HMGET', schedule, 'revision', 'paused'))
if not revision then
  return refuse('NOT_FOUND', member)
end
if not paused then
  return refuse('NOT_PAUSED', member)
end

redis.call('DEL', schedule, history, live, waiting, ledger, asked)
redis.call('ZREM', schedules, member)
redis.call('ZREM', ticks, member)
tell({ type = 'schedule.deleted', ref = member, at = int(now), revision = revision, by = by })
return {}
