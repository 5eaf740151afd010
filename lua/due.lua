-- due: a leader asks which schedules it has to look at. It writes nothing.
-- keys:
--   1 lease  STRING  of the partition
--   2 ticks  ZSET    "namespace:id", scored by the ms at which the leader looks at the schedule
-- args:
--   1 fence      the lease's value while this leader holds it
--   2 limit      schedules at most
--   3 partition  prefix of the partition's keys
-- reply: {now ms, ms of the next look or -1, {member, revision, cursor, from, created, ended, paused, rest, runs, def, ...}}
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless
local lease, ticks = KEYS[1], KEYS[2]
local fence, limit, partition = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end

local now = now_ms()
local members = redis.call('ZRANGE', ticks, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
local due = {}
for _, member in ipairs(members) do
  local fields = redis.call('HMGET', partition .. 'schedule:' .. member,
    'revision', 'cursor', 'from', 'created', 'ended', 'paused', 'rest', 'runs', 'def')
  due[#due + 1] = member
  for i = 1, 9 do
    due[#due + 1] = fields[i] or ''
  end
end
local nearest = redis.call('ZRANGE', ticks, #members, #members, 'WITHSCORES')
return { now, nearest[2] and tonumber(nearest[2]) or -1, due }
