-- redeliver: a delivery that a worker took from asynq and did not begin before it died waits in its queue again.
-- asynq finds it too, but takes one to two minutes. These are asynq's keys, in the form that asynq 0.26 gives them.
-- keys:
--   1 delivery  HASH  asynq's own record of it
--   2 active    LIST  deliveries taken by workers
--   3 lease     ZSET  the same, scored by the s at which asynq's own lease of it ends
--   4 pending   LIST  deliveries that wait
-- args:
--   1 id     of the delivery
--   2 stale  s: only if asynq's lease of it ends no later
-- reply: 1 if it waits again, 0 if there was nothing to do
-- refuses: nothing
-- repeat: harmless: it is not among the taken ones any more
local delivery, active, lease, pending = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, stale = ARGV[1], ARGV[2]

local ends = redis.call('ZSCORE', lease, id)
if redis.call('HGET', delivery, 'state') ~= 'active' or (ends and tonumber(ends) > tonumber(stale)) then
  return 0
end
if redis.call('LREM', active, 0, id) == 0 then
  return 0
end
redis.call('ZREM', lease, id)
redis.call('RPUSH', pending, id)
redis.call('HSET', delivery, 'state', 'pending', 'pending_since', int(now_ms() * 1000000))
return 1
