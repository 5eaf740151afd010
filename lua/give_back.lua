-- give_back: puts deliveries that a worker took and did not handle where the next one is taken. They have waited since
-- they were put into their queue.
-- includes: clock, number, arrive, active
-- keys:
--   pending   LIST
--   active    LIST
--   deadline  ZSET
-- args:
--   arrivals  channel
--   ids       text*  in the order in which they were taken
-- reply:
--   returned  number  how many were active, and are still there
-- refuses: nothing
-- repeat: harmless: what is not active stays where it is
-- full: works
local returned = {}
for id in ids() do
  if let_go(id) then
    redis.call('ZREM', deadline, id)
    if is_there(id) then
      returned[#returned + 1] = id
    end
  end
end
for i = #returned, 1, -1 do
  redis.call('RPUSH', pending, returned[i])
  redis.call('HSET', delivery_key(returned[i]), 'state', 'pending')
  redis.call('HSETNX', delivery_key(returned[i]), 'pending_since', since)
end
if #returned > 0 then
  redis.call('PUBLISH', arrivals, '')
end
return { #returned }
