-- acquire_lock: takes a free lock, or extends the lock that the holder holds already. A lock that would last longer than its
-- holder asked for, as Redis's clock was set back, is cut to that.
-- A fencing token is at least the time in ms, so that tokens grow even if Redis lost the newest ones, and nothing is kept of locks
-- that nobody holds.
-- includes: clock, number, refuse
-- keys:
--   lock   HASH
--   locks  ZSET
--   token  STRING
-- args:
--   member  member  the lock
--   holder  text    names who asks: the same name is the same holder
--   ttl     ms      after which the lock is free unless it is renewed
--   note    text    for people
-- reply:
--   fence    number  fencing token: higher than that of every earlier holder
--   since    time    when the holder got the lock
--   expires  time    when the lock is free unless it is renewed
-- refuses:
--   HELD  another holder has it; the detail is the ms until it expires and, after a blank, the holder
--   FULL  LOCKS_LIMIT locks of the partition are held; the detail is this number
-- repeat: harmless: the holder gets the same token again, and the ttl starts again
-- full: refused

-- held_for refuses the call. It may do so after the cut below, which a repeat finds done; no other write comes before a refusal.
local function held_for(left, by)
  return refuse('HELD', int(left) .. ' ' .. by)
end

local held = redis.call('HMGET', lock, 'holder', 'fence', 'since', 'ttl')
if not held[1] and redis.call('ZCOUNT', locks, '(' .. int(now), '+inf') >= LOCKS_LIMIT then
  return refuse('FULL', int(LOCKS_LIMIT))
end
if held[1] and held[1] ~= holder then
  local left, asked = redis.call('PTTL', lock), tonumber(held[4])
  if left > asked then
    redis.call('PEXPIRE', lock, int(asked))
    redis.call('HSET', lock, 'expires', int(now + asked))
    redis.call('ZADD', locks, int(now + asked), member)
  end
  return held_for(math.min(left, asked), held[1])
end

local fence, since, expires = tonumber(held[2]), tonumber(held[3]), now + ttl
if not held[1] then
  fence, since = math.max(now, (tonumber(redis.call('GET', token)) or 0) + 1), now
  redis.call('SET', token, int(fence))
end
redis.call('ZREMRANGEBYSCORE', locks, '-inf', int(now))
redis.call('ZADD', locks, int(expires), member)
redis.call('HSET', lock, 'holder', holder, 'fence', int(fence), 'since', int(since), 'expires', int(expires), 'ttl', int(ttl),
  'note', note)
redis.call('PEXPIRE', lock, int(ttl))
return { fence, since, expires }
