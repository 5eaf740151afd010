-- resume_schedule: lets a paused schedule create tasks again. The leader plans the ticks of the pause at once, as misfires.
-- includes: clock, number, refuse, look, tell
-- keys:
--   schedule  HASH
-- args:
--   member   member
--   by       text    who resumes it, "" if nobody knows
--   wake     channel
--   changes  channel
-- reply:
--   schedule  hash  the schedule as it is now
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: a schedule that is not paused stays as it is
-- full: refused
local revision, paused, rest, cursor = unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'rest', 'cursor'))
if not revision then
  return refuse('NOT_FOUND', member)
end
if not paused then
  return { redis.call('HGETALL', schedule) }
end

local from, ended = string.match(rest or '', '^(%d+) (%d+)$')
if from and tonumber(ended) > tonumber(cursor) then -- ticks of the previous pause are undecided: the pauses become one
  paused = from
end
redis.call('HSET', schedule, 'rest', paused .. ' ' .. int(now))
redis.call('HDEL', schedule, 'paused', 'note', 'failures')
look_at(member, now)
tell({ type = 'schedule.resumed', ref = member, at = int(now), revision = revision, by = by })
return { redis.call('HGETALL', schedule) }
