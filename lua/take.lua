-- take: a worker takes deliveries that have waited longest, unless their queue is paused.
-- includes: clock, number, rouse
-- keys:
--   pending   LIST
--   paused    STRING
--   active    LIST
--   deadline  ZSET
--   awaited   STRING
--   called    STRING
-- args:
--   limit     number  maximum number of deliveries, 1 to 100
--   lease     ms      for which the worker holds them
--   queue     text    its name in DTS
--   leaders   channel
--   arrivals  channel
-- reply:
--   paused  flag    the queue is paused; nothing was taken
--   left    number  deliveries that still wait
--   taken   (id text, msg text)*  msg is the delivery in asynq's encoding
-- refuses: nothing
-- repeat: takes further deliveries. Those of the lost reply are enqueued again when nobody has begun them in time
if redis.call('EXISTS', paused) == 1 then
  return { 1, redis.call('LLEN', pending), {} }
end
local ids = redis.call('RPOP', pending, limit) or {}
local ends = int((now + lease) / 1000)
local taken, live, leases = {}, {}, {}
for i = 1, #ids do
  local id = ids[i]
  local delivery = delivery_key(id)
  local msg = redis.call('HGET', delivery, 'msg')
  if msg then -- else somebody deleted it
    redis.call('HSET', delivery, 'state', 'active')
    redis.call('HDEL', delivery, 'pending_since')
    taken[#taken + 1], taken[#taken + 2] = id, msg
    leases[#leases + 1], leases[#leases + 2] = ends, id
    live[#live + 1] = id
  end
end
if #live > 0 then
  redis.call('LPUSH', active, unpack(live))
  redis.call('ZADD', deadline, unpack(leases))
end
local waiting, low = redis.call('LLEN', pending), redis.call('GET', awaited)
if low and waiting <= tonumber(low) then
  redis.call('DEL', awaited)
  redis.call('PUBLISH', leaders, 'room ' .. queue)
end
if waiting > 0 then
  left_some()
end
return { 0, waiting, taken }
