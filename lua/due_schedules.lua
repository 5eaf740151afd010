-- due_schedules: reads the schedules whose ticks a leader has to plan now.
-- includes: clock, number, refuse, fence, damage, tick_queue
-- keys:
--   lease  STRING
--   ticks  ZSET
-- args:
--   fence   fence   that this leader got with the lease
--   limit   number  maximum number of schedules
--   queues  flag    also reads the queues of their tasks
-- reply:
--   now   time
--   next  time  when the next schedule is due; none if no other one is
--   due   (member text, revision text, cursor text, from text, created text, ended text, paused text, rest text, runs text, def text,
--     held text, queue text)*  as they are in the hash; queue: of its tasks, "" if it was not asked for
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: it only reads
-- full: reads
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

-- read returns the fields of a schedule.
local function read(member)
  return redis.call('HMGET', schedule_key(member),
    'revision', 'cursor', 'from', 'created', 'ended', 'paused', 'rest', 'runs', 'def', 'held')
end

local members = redis.call('ZRANGE', ticks, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
local due = {}
for _, member in ipairs(members) do
  local fields = try(read, member) or {}
  due[#due + 1] = member
  for i = 1, 10 do
    due[#due + 1] = fields[i] or false
  end
  due[#due + 1] = queues and fields[9] and queue_of_ticks(member, fields[1]) or ''
end
local nearest = redis.call('ZRANGE', ticks, #members, #members, 'WITHSCORES')
return { now, tonumber(nearest[2]) or false, due }
