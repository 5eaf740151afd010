-- recall: removes deliveries from a queue that wait for a worker, and says which ones no worker has or can take.
-- includes: nothing
-- keys:
--   pending  LIST
-- args:
--   ids  text*
-- reply:
--   recalled  text*  those that waited, and those that were not there
-- refuses: nothing
-- repeat: harmless, and says the same
-- full: works
local recalled = {}
for id in ids() do
  local state = redis.call('HGET', delivery_key(id), 'state')
  if state == 'pending' and redis.call('LREM', pending, -1, id) > 0 then
    redis.call('DEL', delivery_key(id))
    state = false
  end
  if not state then
    recalled[#recalled + 1] = id
  end
end
return { recalled }
