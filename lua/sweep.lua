-- sweep: finished tasks whose retention is over, and the ones next to it where there are too many, are forgotten.
-- keys:
--   1 lease   STRING  of the partition
--   2 expiry  ZSET    finished tasks of the partition, scored by the ms at which they are forgotten
--   3 wheel   ZSET
--   4 ticks   ZSET    schedules, scored by the ms at which the leader looks at them
-- args:
--   1 fence      the lease's value while this leader holds it
--   2 keep       finished tasks kept in the partition at most
--   3 limit      tasks forgotten in one run at most
--   4 partition  prefix of the partition's keys
-- reply: {how many were forgotten, how many tasks on the wheel are due, how many schedules}
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless: it goes on with what is left
local lease, expiry, wheel, ticks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fence, keep, limit, partition = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end

local now = int(now_ms())
local due, looks = redis.call('ZCOUNT', wheel, '-inf', now), redis.call('ZCOUNT', ticks, '-inf', now)
local surplus = redis.call('ZCARD', expiry) - keep
local over = redis.call('ZCOUNT', expiry, '-inf', now)
local count = math.min(limit, math.max(surplus, over))
if count <= 0 then
  return { 0, due, looks }
end
local members = redis.call('ZRANGE', expiry, 0, count - 1)
for _, member in ipairs(members) do
  local task = partition .. 'task:' .. member
  local state = redis.call('HGET', task, 'state')
  local namespace = string.match(member, '^[^:]+')
  if state then
    redis.call('ZREM', partition .. 'state:' .. namespace .. ':' .. state, member)
  end
  redis.call('DEL', task, partition .. 'attempts:' .. member, partition .. 'log:' .. member)
  redis.call('ZREM', expiry, member)
end
return { #members, due, looks }
