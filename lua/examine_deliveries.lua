-- examine_deliveries: finds what of deliveries in a queue of asynq does not fit together, each in one moment, and repairs it on request:
-- a delivery that says that it waits, or that a worker has it, is in the list of those, and one that a worker has is leased.
-- includes: clock, number, arrive, findings
-- keys:
--   pending   LIST
--   active    LIST
--   deadline  ZSET
-- args:
--   checks    text  those that are wanted, each between blanks
--   repair    flag
--   arrivals  channel
--   ids       text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local returned = {}

-- in_list returns whether an id is in a list; nil if the list is too long to search. Those that wait longest are at its end.
local function in_list(list, id)
  if redis.call('LLEN', list) <= LIST_SEARCHED then
    return redis.call('LPOS', list, id, 'RANK', -1) ~= false
  end
end

-- put_back puts a delivery where the next one is taken.
local function put_back(id)
  redis.call('LREM', active, 0, id)
  redis.call('ZREM', deadline, id)
  returned[#returned + 1] = id
end

for id in ids() do
  local state = redis.call('HGET', delivery_key(id), 'state')
  if state == 'pending' and in_list(pending, id) == false or state == 'active' and in_list(active, id) == false then
    if report(id, 'delivery-lost', 'has the state ' .. state .. ', and is not in the list of that name') then
      put_back(id)
    end
  elseif state == 'active' and in_list(active, id) and not redis.call('ZSCORE', deadline, id) then
    if report(id, 'delivery-unleased', 'is active, and not in ' .. deadline) then
      redis.call('ZADD', deadline, int(now / 1000), id)
    end
  elseif not state and (in_list(pending, id) or in_list(active, id)) and
      report(id, 'delivery-leftovers', 'does not exist, and is in a list of its queue') then
    redis.call('LREM', pending, 0, id)
    redis.call('LREM', active, 0, id)
    redis.call('ZREM', deadline, id)
  end
end
put_first(returned)
if #returned > 0 then
  redis.call('PUBLISH', arrivals, '')
end
return { found }
