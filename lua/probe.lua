-- probe: finds out whether the Redis that holds a partition takes writes, and reads its time.
-- includes: clock, number
-- keys:
--   states  HASH  only for its slot, and for a write that changes nothing
-- args: nothing
-- reply:
--   now  time
-- refuses: nothing
-- repeat: harmless: it changes nothing
-- full: works
redis.call('PERSIST', states) -- it never expires
return { int(now) }
