-- measure_queue: reads how much a queue of asynq holds, as asynq's own inspector does.
-- includes: clock
-- keys:
--   active     LIST
--   pending    LIST
--   scheduled  ZSET
--   retry      ZSET
--   archived   ZSET
--   completed  ZSET
--   groups     SET
-- args: nothing
-- reply:
--   pending_count   number
--   active_count    number
--   archived_count  number
--   size            number  all deliveries, in whatever state
--   memory          number  bytes; an estimate, from the first deliveries of each kind
--   example         text    the id of the delivery that is taken next, or of another one if none waits; "" if there is none
--   waited          ms      how long the delivery that is taken next has waited; 0 if none waits
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local SAMPLE, SAMPLE_GROUPS = 20, 5 -- asynq's; so are the order and the way of adding up, on which the last digit depends
local size, memory, example = 0, 0, ''

local function bytes_of(ids)
  local bytes = 0
  for i = 1, #ids do
    bytes = bytes + (redis.call('MEMORY', 'USAGE', delivery_key(ids[i])) or 0)
  end
  return bytes
end

-- add adds the deliveries of a list or a sorted set, the first of which are given. It returns their number.
local function add(key, ids, count)
  if count > 0 then
    example = example ~= '' and example or ids[1]
    size, memory = size + count, memory + bytes_of(ids) / #ids * count + redis.call('MEMORY', 'USAGE', key)
  end
  return count
end

local function add_list(key)
  local ids = redis.call('LRANGE', key, 0, SAMPLE - 1)
  return add(key, ids, #ids < SAMPLE and #ids or redis.call('LLEN', key))
end

local function add_set(key)
  local ids = redis.call('ZRANGE', key, 0, SAMPLE - 1)
  return add(key, ids, #ids < SAMPLE and #ids or redis.call('ZCARD', key))
end

local active_count, pending_count = add_list(active), add_list(pending)
add_set(scheduled)
add_set(retry)
local archived_count = add_set(archived)
add_set(completed)

local grouped, n, bytes = 0, 0, 0
for i, name in ipairs(redis.call('SMEMBERS', groups)) do
  grouped = grouped + redis.call('ZCARD', group_key(name))
  if i <= SAMPLE_GROUPS then
    local ids = redis.call('ZRANGE', group_key(name), 0, SAMPLE - 1)
    n, bytes = n + #ids, bytes + bytes_of(ids)
  end
end
if n > 0 then
  size, memory = size + grouped, memory + bytes / n * grouped
end

local next_id = redis.call('LINDEX', pending, -1)
local oldest = next_id and redis.call('HGET', delivery_key(next_id), 'pending_since')
local since = tonumber(oldest or '') -- in ns; nil also if somebody has written something else
local waited = since and math.max(now - math.floor(since / 1000000), 0)
return { pending_count, active_count, archived_count, size, memory, next_id or example, waited or 0 }
