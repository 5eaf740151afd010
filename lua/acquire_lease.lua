-- acquire_lease: takes a free lease, or extends the lease that the owner holds already.
-- includes: number, refuse
-- keys:
--   lease  STRING
--   epoch  STRING
-- args:
--   owner  node  the node that asks
--   ttl    ms    after which the lease expires
-- reply:
--   token  number  fencing token of the lease
-- refuses:
--   HELD  another owner holds the lease; the detail is the ms until it expires
-- repeat: harmless: the owner gets the same token again, and the ttl starts again
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
