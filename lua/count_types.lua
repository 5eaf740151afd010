-- count_types: counts the deliveries of each type among those of a queue that have waited longest.
-- includes: nothing
-- keys:
--   pending  LIST
-- args:
--   limit  number  maximum number of deliveries to look at
-- reply:
--   seen   number  deliveries that it looked at
--   types  (type text, number number)*
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local numbers, counted = {}, {}
local ids = redis.call('LRANGE', pending, -limit, -1)
for i = 1, #ids do
  local msg = redis.call('HGET', delivery_key(ids[i]), 'msg') or ''
  local tag, length = string.byte(msg, 1, 2)
  local task_type = tag == 10 and string.sub(msg, 3, length + 2) or ''
  numbers[task_type] = (numbers[task_type] or 0) + 1
end
for task_type, number in pairs(numbers) do
  counted[#counted + 1], counted[#counted + 2] = task_type, number
end
return { #ids, counted }
