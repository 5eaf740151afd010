-- release_lock: releases a lock before it expires, and publishes that it is free.
-- includes: nothing
-- keys:
--   locks  ZSET
--   lock   HASH
-- args:
--   member    member  the lock
--   holder    text    as it was given to acquire_lock
--   fence     number  that acquire_lock replied; 0: any, for a holder that got no reply
--   unlocked  channel
-- reply:
--   released  flag  false if the holder did not have the lock any more
-- refuses: nothing
-- repeat: harmless: the holder does not have the lock any more
-- full: works
local held = redis.call('HMGET', lock, 'holder', 'fence')
if held[1] ~= holder or fence ~= 0 and tonumber(held[2]) ~= fence then
  return { 0 }
end

redis.call('DEL', lock)
redis.call('ZREM', locks, member)
redis.call('PUBLISH', unlocked, member)
return { 1 }
