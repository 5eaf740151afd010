-- take: a worker takes deliveries that have waited longest, of the types that it runs, unless their queue is paused. Others stay where
-- they are. If the first SCAN_LIMIT deliveries are too few of its own, the others of these go behind all that wait, so that the next
-- take finds further ones.
-- includes: clock, number, rouse, types
-- keys:
--   pending   LIST
--   paused    STRING
--   active    LIST
--   deadline  ZSET
--   awaited   STRING
--   called    STRING
--   skipped   STRING
-- args:
--   limit     number  maximum number of deliveries, 1 to 100
--   lease     ms      for which the worker holds them
--   queue     text    its name in DTS
--   types     text    those that the worker runs, each between blanks; "" for all
--   leaders   channel
--   arrivals  channel
-- reply:
--   paused  flag    the queue is paused; nothing was taken
--   left    number  deliveries that still wait
--   passed  number  those of them that were passed over, as the worker does not run their types
--   taken   (id text, msg text)*  msg is the delivery in asynq's encoding
-- refuses: nothing
-- repeat: takes further deliveries. Those of the lost reply are enqueued again when nobody has begun them in time
-- full: works
if redis.call('EXISTS', paused) == 1 then
  return { 1, redis.call('LLEN', pending), 0, {} }
end
local ends = int((now + lease) / 1000)
local taken, live, leases, back, passed = {}, {}, {}, {}, 0

-- hold takes a delivery that was removed from the list, if the worker runs it and has not got enough; else it is to go back.
local function hold(id)
  if #live == limit then
    back[#back + 1] = id
    return
  end
  local delivery = delivery_key(id)
  local msg = redis.call('HGET', delivery, 'msg')
  if not msg then -- somebody deleted it
    return
  end
  if not runs_delivery(msg) then
    back[#back + 1], passed = id, passed + 1
    return
  end
  redis.call('HSET', delivery, 'state', 'active')
  taken[#taken + 1], taken[#taken + 2] = id, msg
  leases[#leases + 1], leases[#leases + 2] = ends, id
  live[#live + 1] = id
end

-- scan takes from the next n deliveries. Returns whether there were so many.
local function scan(n)
  local ids = redis.call('RPOP', pending, n) or {}
  for i = 1, #ids do
    hold(ids[i])
  end
  return #ids == n
end

local more, scanned = scan(limit), limit
while more and passed > 0 and #live < limit and scanned < SCAN_LIMIT do
  more, scanned = scan(SCAN_LIMIT / 4), scanned + SCAN_LIMIT / 4
end
if passed > 0 then
  redis.call('SET', skipped, 1, 'PX', SKIPPED_FOR)
end
if #back > 0 and more and #live < limit then
  redis.call('LPUSH', pending, unpack(back))
elseif #back > 0 then
  for i = 1, #back / 2 do
    back[i], back[#back + 1 - i] = back[#back + 1 - i], back[i]
  end
  redis.call('RPUSH', pending, unpack(back))
end
if #live > 0 then
  redis.call('LPUSH', active, unpack(live))
  redis.call('ZADD', deadline, unpack(leases))
end
local waiting, low = redis.call('LLEN', pending), redis.call('GET', awaited)
if low and waiting - passed <= tonumber(low) then
  redis.call('DEL', awaited)
  redis.call('PUBLISH', leaders, 'room ' .. queue)
end
if waiting > 0 then
  left_some()
end
return { 0, waiting, passed, taken }
