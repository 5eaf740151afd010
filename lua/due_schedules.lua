-- due_schedules: which schedules a leader has to look at. It writes nothing.
-- includes: clock, number, refuse, fence
-- keys:
--   lease  STRING
--   ticks  ZSET
-- args:
--   fence  fence   the lease's value while this leader holds it
--   limit  number  schedules at most
-- reply:
--   now   time
--   next  time  when the next one is to be looked at; none if none waits
--   due   (member text, revision text, cursor text, from text, created text, ended text, paused text, rest text, runs text, def text)*  as they stand in
--     the hash
-- refuses:
--   FENCED  somebody else leads the partition, or nobody
-- repeat: harmless: it only reads
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local members = redis.call('ZRANGE', ticks, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
local due = {}
for _, member in ipairs(members) do
  local fields = redis.call('HMGET', schedule_key(member),
    'revision', 'cursor', 'from', 'created', 'ended', 'paused', 'rest', 'runs', 'def')
  due[#due + 1] = member
  for i = 1, 9 do
    due[#due + 1] = fields[i]
  end
end
local nearest = redis.call('ZRANGE', ticks, #members, #members, 'WITHSCORES')
return { now, tonumber(nearest[2]) or false, due }
