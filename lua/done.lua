-- done: deletes deliveries that were handled, and counts them.
-- includes: clock, number, counts, active
-- keys:
--   active           LIST
--   deadline         ZSET
--   processed_today  STRING
--   processed        STRING
-- args:
--   ends  (id text, lock text)*  lock is the key with which asynq's client made the delivery unique, "" for none
-- reply:
--   done  number  how many were active
-- refuses: nothing
-- repeat: harmless: what is not active is not counted again
-- full: works
local gone, keys = {}, {}
for id, lock in ends() do
  if let_go(id) then
    gone[#gone + 1] = id
    keys[#keys + 1] = delivery_key(id)
    if lock ~= '' and redis.call('TYPE', lock).ok == 'string' and redis.call('GET', lock) == id then
      keys[#keys + 1] = lock
    end
  end
end
if #gone > 0 then
  redis.call('ZREM', deadline, unpack(gone))
  redis.call('DEL', unpack(keys))
  count(processed_today, processed, #gone)
end
return { #gone }
