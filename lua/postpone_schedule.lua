-- postpone_schedule: a leader cannot read a schedule, and looks at it again later, so that it holds up no other one.
-- includes: clock, number, refuse, fence
-- keys:
--   lease  STRING
--   ticks  ZSET
-- args:
--   fence   fence  the lease's value while this leader holds it
--   member  text   "namespace:id", readable or not
--   delay   ms
-- reply: nothing
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless: it is looked at a little later
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

redis.call('ZADD', ticks, 'XX', int(now + delay), member)
return {}
