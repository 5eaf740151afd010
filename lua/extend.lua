-- extend: a worker extends its leases of deliveries.
-- includes: clock, number
-- keys:
--   deadline  ZSET
-- args:
--   lease  ms  from now
--   ids    text*
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: it extends them a little further
local ends = int((now + lease) / 1000)
for id in ids() do
  if redis.call('ZREM', deadline, id) == 1 then -- a Redis that is full refuses a script that begins with an addition
    redis.call('ZADD', deadline, ends, id)
  end
end
return {}
