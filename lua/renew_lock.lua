-- renew_lock: extends a lock.
-- includes: clock, number, refuse
-- keys:
--   locks  ZSET
--   lock   HASH
-- args:
--   member  member    the lock
--   holder  text      as it was given to acquire_lock
--   fence   number    that acquire_lock replied
--   ttl     maybe_ms  from now after which the lock is free; nil: as it was
-- reply:
--   expires  time  when the lock is free unless it is renewed
-- refuses:
--   LOST  the lock has expired or was released; the detail is its present holder, "" if there is none
-- repeat: harmless: the ttl starts again
-- full: works
local held = redis.call('HMGET', lock, 'holder', 'fence', 'ttl')
if held[1] ~= holder or tonumber(held[2]) ~= fence then
  return refuse('LOST', held[1] or '')
end

local span = ttl or tonumber(held[3])
redis.call('ZADD', locks, int(now + span), member)
redis.call('HSET', lock, 'expires', int(now + span), 'ttl', int(span))
redis.call('PEXPIRE', lock, int(span))
return { now + span }
