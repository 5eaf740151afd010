-- count_waiting: counts the tasks of a queue that are due and not handed over. Of those that no leader has looked at yet, which are on the wheel
-- with the due tasks of other queues, it looks at the newest, and takes them for a sample of all.
-- includes: clock, number, definition
-- keys:
--   wheel  ZSET  the script makes further keys of the same partition
-- args:
--   queue   text
--   sample  number  maximum number of tasks of the wheel to look at
-- reply:
--   waiting  number
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local waiting = redis.call('ZCARD', ready_key(queue))
for _, name in ipairs(redis.call('SMEMBERS', backlog_key)) do
  if string.sub(name, 1, #queue + 1) == queue .. ' ' then
    waiting = waiting + redis.call('ZCARD', ready_key(name))
  end
end
local due = redis.call('ZCOUNT', wheel, '-inf', int(now))
local members = due > 0 and redis.call('ZRANGE', wheel, int(now), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, sample) or {}
local seen = 0
for _, record in ipairs(#members > 0 and redis.call('HMGET', defs_key, unpack(members)) or {}) do
  if record and queue_of(record) == queue then
    seen = seen + 1
  end
end
return { waiting + (seen > 0 and math.floor(due * seen / #members) or 0) }
