-- postpone_schedule: makes a schedule due later that is unreadable, so that it does not hold up the others.
-- includes: clock, number, refuse, fence
-- keys:
--   lease  STRING
--   ticks  ZSET
-- args:
--   fence   fence  that this leader got with the lease
--   member  text   of the schedule; it may not be a valid name
--   delay   ms     from now
-- reply: nothing
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the delay counts from the second run
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

redis.call('ZADD', ticks, 'XX', int(now + delay), member)
return {}
