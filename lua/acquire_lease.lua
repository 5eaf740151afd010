-- acquire_lease: takes a free lease, or extends the lease that the owner holds already. A lease that would last longer than its
-- holder asked for, as Redis's clock was set back, is cut to that.
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

-- held_for refuses the call. It may do so after the cut below, which a repeat finds done; no other write comes before a refusal.
local function held_for(left)
  return refuse('HELD', int(left))
end

local newest = redis.call('GET', lease) or '0:'
local token, holder = string.match(newest, '^(%d+):(.*)$')
local term = term_of(newest)
local left = redis.call('PTTL', term)
if left ~= -2 and holder ~= owner then
  local asked = tonumber(redis.call('GET', term)) or ttl -- an older version writes no ttl
  if left > asked then
    redis.call('PEXPIRE', term, int(asked))
  end
  return held_for(math.min(left, asked))
end
if left ~= -2 then
  redis.call('SET', term, int(ttl), 'PX', int(ttl))
  return { tonumber(token) }
end

token = tonumber(token) + 1
local fence = int(token) .. ':' .. owner
redis.call('SET', lease, fence)
redis.call('SET', term_of(fence), int(ttl), 'PX', int(ttl))
return { token }
