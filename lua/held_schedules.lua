-- held_schedules: reads those of some schedules whose ticks their leader may hold back: it has looked at them lately,
-- or is about to. They are held back if a tick is due before that look: the leader has seen it and not decided it.
-- includes: clock, number, tick_queue
-- keys:
--   ticks  ZSET  the script makes further keys of the same partition
-- args:
--   members  text*
-- reply:
--   held  (member text, look time, revision text, cursor text, from text, created text, ended text, def text,
--     queue text)*  look: when the leader looks at it again; queue: of its tasks; the others as they are in the hash
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local RECENT = 60 * HOLD_PAUSE -- what is due for longer is overdue: no leader looks at it

local held = {}
for member in members() do
  local look = tonumber(redis.call('ZSCORE', ticks, member) or '')
  if look and look > now - RECENT and look <= now + HOLD_PAUSE then
    local fields = redis.call('HMGET', schedule_key(member), 'revision', 'cursor', 'from', 'created', 'ended', 'def')
    held[#held + 1] = member
    held[#held + 1] = int(look)
    for i = 1, 6 do
      held[#held + 1] = fields[i]
    end
    held[#held + 1] = queue_of_ticks(member, fields[1])
  end
end
return { held }
