-- renew: the holder of a lease keeps it for another while.
-- keys:
--   1 lease  STRING  "<token>:<owner>", expires with the lease
-- args:
--   1 fence  what the holder knows the lease to be: "<token>:<owner>"
--   2 ttl    ms
-- reply: ms left
-- refuses:
--   LOST  it expired or belongs to somebody else; the detail is what the lease is now, if anything
-- repeat: harmless: the time counts anew.

local lease = KEYS[1]
local fence, ttl = ARGV[1], tonumber(ARGV[2])

local held = redis.call('GET', lease)
if held ~= fence then
  return refuse('LOST', held or '')
end

redis.call('PEXPIRE', lease, int(ttl))
return ttl
