-- recall: removes deliveries from a queue that wait for a worker.
-- includes: nothing
-- keys:
--   pending  LIST
-- args:
--   ids  text*
-- reply:
--   recalled  text*  those that waited; no worker can take them any more
-- refuses: nothing
-- repeat: harmless, but does not say again which ones waited
-- full: works
local recalled = {}
for id in ids() do
  if redis.call('HGET', delivery_key(id), 'state') == 'pending' and redis.call('LREM', pending, -1, id) > 0 then
    redis.call('DEL', delivery_key(id))
    recalled[#recalled + 1] = id
  end
end
return { recalled }
