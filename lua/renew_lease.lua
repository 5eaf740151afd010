-- renew_lease: the holder of a lease keeps it for another while.
-- includes: number, refuse
-- keys:
--   lease  STRING
-- args:
--   fence  fence  the lease's value while the caller holds it
--   ttl    ms
-- reply: nothing
-- refuses:
--   LOST  it expired or belongs to somebody else; the detail is what the lease is now, if anything
-- repeat: harmless: the time counts anew
local held = redis.call('GET', lease)
if held ~= fence then
  return refuse('LOST', held or '')
end

redis.call('PEXPIRE', lease, int(ttl))
return {}
