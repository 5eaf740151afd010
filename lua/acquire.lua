-- acquire: somebody takes a lease that is free, or makes sure of the one it holds already.
-- keys:
--   1 lease  STRING  "<token>:<owner>", expires with the lease
--   2 epoch  STRING  the newest token given out, never expires
-- args:
--   1 owner  who asks
--   2 ttl    ms
-- reply: {token, ms left}
-- refuses:
--   HELD  somebody else holds it; the detail is the ms left
-- repeat: harmless: the owner gets the same token again, and the time counts anew.

local lease, epoch = KEYS[1], KEYS[2]
local owner, ttl = ARGV[1], tonumber(ARGV[2])

local held = redis.call('GET', lease)
if held then
  local token, holder = string.match(held, '^(%d+):(.*)$')
  if holder ~= owner then
    return refuse('HELD', int(redis.call('PTTL', lease)))
  end
  redis.call('PEXPIRE', lease, int(ttl))
  return { tonumber(token), ttl }
end

local token = redis.call('INCR', epoch)
redis.call('SET', lease, int(token) .. ':' .. owner, 'PX', int(ttl))
return { token, ttl }
