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
-- full: works
local ends = int((now + lease) / 1000)
for id in ids() do
  redis.call('ZADD', deadline, 'XX', ends, id)
end
return {}
