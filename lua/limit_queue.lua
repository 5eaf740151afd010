-- limit_queue: sets the capacity of a queue: how many tasks may wait in it. The key, the event and its field keep the
-- old name, limit: nodes of earlier releases read them.
-- includes: clock, number, tell
-- keys:
--   limits  HASH
-- args:
--   queue    text    its name
--   limit    number  0 for any number
--   by       text    who sets it, "" if nobody knows
--   changes  channel
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the queue has that capacity already
-- full: works
local before = redis.call('HGET', limits, queue)
if before == int(limit) or not before and limit == 0 then
  return {}
end

if limit > 0 then
  redis.call('HSET', limits, queue, int(limit))
else
  redis.call('HDEL', limits, queue)
end
tell({ type = 'queue.limited', queue = queue, at = int(now), by = by, limit = int(limit) })
return {}
