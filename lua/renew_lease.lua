-- renew_lease: extends a lease.
-- includes: number, refuse
-- keys:
--   lease  STRING
-- args:
--   fence  fence  value of the lease while the caller holds it
--   ttl    ms     from now after which the lease expires
-- reply: nothing
-- refuses:
--   LOST  the lease has expired or has another holder; the detail is its value, "" if it is free
-- repeat: harmless: the ttl starts again
local held = redis.call('GET', lease)
if held ~= fence then
  return refuse('LOST', held or '')
end

redis.call('PEXPIRE', lease, int(ttl))
return {}
