-- claim: a leader takes tasks that are due off its wheel; they are queued, each for its next attempt.
-- In order of due time; but where a whole batch is late by more than fresh ms, a quarter of the batch is kept
-- for what has just come due, so that a backlog does not starve it.
-- keys:
--   1 lease     STRING  of the partition
--   2 wheel     ZSET
--   3 queued    ZSET    scored by the ms of the claim
--   4 inflight  ZSET    claimed and not yet known to be in asynq
-- args:
--   1 fence   the lease's value while this leader holds it
--   2 limit   tasks at most
--   3 fresh   ms
--   4 prefix  of the keys of tasks: the task's key is prefix .. member
--   5 events  channel
-- reply: {now ms, next due ms or -1, {member, attempt, due ms, head, ...}}
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: claims further tasks; those of the lost reply are in flight, and enqueued when that is looked at again
local lease, wheel, queued, inflight = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fence, limit, fresh, prefix, events = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end

local now = now_ms()
local due = redis.call('ZRANGE', wheel, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
if #due == 2 * limit and tonumber(due[#due]) < now - fresh then
  local share = math.floor(limit / 4)
  local recent = redis.call('ZRANGE', wheel, int(now - fresh), int(now), 'BYSCORE', 'LIMIT', 0, share, 'WITHSCORES')
  for i = 1, #recent do
    due[#due - #recent + i] = recent[i]
  end
end

local claimed = {}
for i = 1, #due, 2 do
  local member, score = due[i], due[i + 1]
  local task = prefix .. member
  local def = redis.call('HGET', task, 'def')
  redis.call('ZREM', wheel, member)
  if def then
    local attempt = redis.call('HINCRBY', task, 'attempt', 1)
    redis.call('HSET', task, 'state', 'queued', 'queued', int(now), 'due', score)
    redis.call('HDEL', task, 'started', 'node', 'run', 'progress')
    redis.call('ZADD', queued, int(now), member)
    redis.call('ZADD', inflight, int(now), member .. ':' .. attempt)
    announce(events, 'queued', member, 'queued', attempt, '', now, def, '')
    claimed[#claimed + 1] = member
    claimed[#claimed + 1] = attempt
    claimed[#claimed + 1] = tonumber(score)
    claimed[#claimed + 1] = head(def)
  end
end
local first = redis.call('ZRANGE', wheel, 0, 0, 'WITHSCORES')
return { now, first[2] and tonumber(first[2]) or -1, claimed }
