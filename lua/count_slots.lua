-- count_slots: counts the slots beyond one of the tasks in the queue of a node that hold several. It forgets those
-- whose deliveries neither wait nor are with a worker.
-- includes: nothing
-- keys:
--   several  HASH
-- args: nothing
-- reply:
--   further  number
-- refuses: nothing
-- repeat: harmless, and says the same
-- full: works
local further, gone = 0, {}
local all = redis.call('HGETALL', several)
for i = 1, #all, 2 do
  local state = redis.call('HGET', delivery_key(all[i]), 'state')
  if state == 'pending' or state == 'active' then
    further = further + (tonumber(all[i + 1]) or 1) - 1
  else
    gone[#gone + 1] = all[i]
  end
end
for _, id in ipairs(gone) do
  redis.call('HDEL', several, id)
end
return { further }
