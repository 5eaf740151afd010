-- redeliver: puts a delivery that a worker took from asynq, and did not begin before it died, back in its queue.
-- asynq does the same after one to two minutes.
-- includes: clock, number
-- keys:
--   delivery  HASH
--   active    LIST
--   deadline  ZSET
--   pending   LIST
-- args:
--   id     text    of the delivery
--   stale  number  s since 1970: skips deliveries whose lease of asynq ends later
-- reply:
--   redelivered  flag  false if the delivery is not active or its lease ends later
-- refuses: nothing
-- repeat: harmless: the delivery is not active any more
local ends = redis.call('ZSCORE', deadline, id)
if redis.call('HGET', delivery, 'state') ~= 'active' or (ends and tonumber(ends) > stale) then
  return { 0 }
end
if redis.call('LREM', active, 0, id) == 0 then
  return { 0 }
end
redis.call('ZREM', deadline, id)
redis.call('RPUSH', pending, id)
redis.call('HSET', delivery, 'state', 'pending', 'pending_since', int(now * 1000000))
return { 1 }
