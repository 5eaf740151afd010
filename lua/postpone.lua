-- postpone: a leader cannot make anything of a schedule, and looks at it again later, so that it holds up no other one.
-- keys:
--   1 lease  STRING  of the partition
--   2 ticks  ZSET    "namespace:id", scored by the ms at which the leader looks at the schedule
-- args:
--   1 fence   the lease's value while this leader holds it
--   2 member  "namespace:id"
--   3 delay   ms
-- reply: 1
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless: it is looked at a little later
local lease, ticks = KEYS[1], KEYS[2]
local fence, member, delay = unpack(ARGV)

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end

redis.call('ZADD', ticks, 'XX', int(now_ms() + tonumber(delay)), member)
return 1
