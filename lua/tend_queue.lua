-- tend_queue: does for a queue what asynq's servers do besides handling tasks: it forwards tasks that are due, puts
-- deliveries back whose worker died, and deletes what has expired; up to 100 of each. Leases that last longer than any worker asks for,
-- as Redis's clock was set back or a server of asynq has a fast one, it cuts: who works on the delivery extends the lease soon.
-- includes: clock, number, arrive, archive
-- keys:
--   pending    LIST
--   active     LIST
--   deadline   ZSET
--   scheduled  ZSET
--   retry      ZSET
--   archived   ZSET
--   completed  ZSET
-- args:
--   longest   ms  that a worker leases a delivery
--   cut       ms  that is left of a lease that is longer
--   grace     ms  after the end of the worker's lease before a delivery counts as orphaned
--   arrivals  channel
-- reply:
--   forwarded  number
--   orphans    number  deliveries put back
--   deleted    number  dead letters and finished tasks
-- refuses: nothing
-- repeat: harmless: it finds less to do
-- full: works
local seconds = int(now / 1000)
local function due(set, before)
  return redis.call('ZRANGE', set, '-inf', before, 'BYSCORE', 'LIMIT', 0, 100)
end

local forwarded = 0
for _, set in ipairs({ scheduled, retry }) do
  for _, id in ipairs(due(set, seconds)) do
    local delivery = delivery_key(id)
    local msg, member_of = unpack(redis.call('HMGET', delivery, 'msg', 'group'))
    redis.call('ZREM', set, id)
    if msg and member_of and member_of ~= '' then
      redis.call('ZADD', group_key(member_of), seconds, id)
      redis.call('HSET', delivery, 'state', 'aggregating')
    elseif msg then
      redis.call('LPUSH', pending, id)
      mark_pending(id)
      forwarded = forwarded + 1
    end
  end
end

local orphans = {}
for _, id in ipairs(due(deadline, int((now - grace) / 1000))) do
  redis.call('ZREM', deadline, id)
  if redis.call('LREM', active, 0, id) > 0 and is_there(id) then
    orphans[#orphans + 1] = id
  end
end
put_first(orphans)

local long = redis.call('ZRANGE', deadline, int((now + longest) / 1000 + 1), '+inf', 'BYSCORE', 'LIMIT', 0, 100)
for _, id in ipairs(long) do
  redis.call('ZADD', deadline, 'XX', int((now + cut) / 1000), id)
end

local deleted = trim_archive()
for _, id in ipairs(due(completed, seconds)) do
  redis.call('DEL', delivery_key(id))
  redis.call('ZREM', completed, id)
  deleted = deleted + 1
end
if forwarded + #orphans > 0 then
  redis.call('PUBLISH', arrivals, '')
end
return { forwarded, #orphans, deleted }
