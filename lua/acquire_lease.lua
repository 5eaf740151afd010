-- acquire_lease: takes a free lease, or extends the lease that the owner holds already.
-- includes: number, refuse, term
-- keys:
--   lease  STRING
-- args:
--   owner  node  the node that asks
--   ttl    ms    after which the lease expires
-- reply:
--   token  number  fencing token of the lease
-- refuses:
--   HELD  another owner holds the lease; the detail is the ms until it expires
-- repeat: harmless: the owner gets the same token again, and the ttl starts again
-- full: works
local newest = redis.call('GET', lease) or '0:'
local token, holder = string.match(newest, '^(%d+):(.*)$')
local left = redis.call('PTTL', term_of(newest))
if left ~= -2 then
  if holder ~= owner then
    return refuse('HELD', int(left))
  end
  redis.call('PEXPIRE', term_of(newest), int(ttl))
  return { tonumber(token) }
end

token = tonumber(token) + 1
local fence = int(token) .. ':' .. owner
redis.call('SET', lease, fence)
redis.call('SET', term_of(fence), '', 'PX', int(ttl))
return { token }
