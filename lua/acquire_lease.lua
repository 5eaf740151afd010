-- acquire_lease: somebody takes a lease that is free, or makes sure of the one it holds already.
-- includes: number, refuse
-- keys:
--   lease  STRING
--   epoch  STRING
-- args:
--   owner  node  who asks
--   ttl    ms
-- reply:
--   token  number
-- refuses:
--   HELD  somebody else holds it; the detail is the ms left
-- repeat: harmless: the owner gets the same token again, and the time counts anew
local held = redis.call('GET', lease)
if held then
  local token, holder = string.match(held, '^(%d+):(.*)$')
  if holder ~= owner then
    return refuse('HELD', int(redis.call('PTTL', lease)))
  end
  redis.call('PEXPIRE', lease, int(ttl))
  return { tonumber(token) }
end

local token = redis.call('INCR', epoch)
redis.call('SET', lease, int(token) .. ':' .. owner, 'PX', int(ttl))
return { token }
