-- enqueue: puts deliveries into a queue of asynq, in the form of asynq's own client.
-- It repairs deliveries of the same id. One that waits is announced again. One that a worker took and abandoned, or that waits and is not in
-- the list, as somebody has deleted that, is put where the next one is taken. One that has ended was handled by a server of asynq, and stays. But what waits or has ended is replaced if it
-- is of another claim: of the task before it was changed, or of an earlier task with the same id.
-- includes: clock, number, arrive, rouse
-- keys:
--   pending    LIST
--   active     LIST
--   deadline   ZSET
--   archived   ZSET
--   completed  ZSET
--   called     STRING
--   skipped    STRING
--   several    HASH
-- args:
--   stale       ms  a delivery is abandoned if its worker's lease of it ends within this time
--   arrivals    channel
--   queue       text  its name in DTS
--   workers     text  channels of the workers to wake if the queue was empty, or those that look into it do not run what waits,
--     separated by blanks; "" to wake all
--   deliveries  (id text, msg text, stamp text)*  at most 100; msg is the delivery in asynq's encoding; stamp: a part of it that no
--     delivery of another claim has
-- reply:
--   added     number  new deliveries, including replaced ones
--   returned  number  deliveries that had been abandoned, or were missing in the list
--   length    number  deliveries that wait now
--   ended     (id text, state text, msg text, result text)*  deliveries that a server of asynq has handled; state is completed or
--     archived
-- refuses: nothing
-- repeat: harmless: the deliveries wait already
-- full: works
local before, is_of_node = redis.call('LLEN', pending), string.find(queue, '@', 1, true)
local added, returned, ended, waits = {}, {}, {}, false
local is_new = {} -- by delivery: this call has enqueued it
local keys = ids_of_deliveries()
for i, id in ipairs(keys) do
  keys[i] = delivery_key(id)
end
local known = redis.call('EXISTS', unpack(keys)) > 0 -- mostly, all deliveries are new

for id, msg, stamp in deliveries() do
  local delivery = delivery_key(id)
  local state = (known or is_new[id]) and redis.call('HGET', delivery, 'state')
  local has_ended = state == 'archived' or state == 'completed'
  local fields = has_ended and redis.call('HMGET', delivery, 'msg', 'result')
  if has_ended and string.find(fields[1] or '', stamp, 1, true) then
    for _, value in ipairs({ id, state, fields[1], fields[2] or '' }) do
      ended[#ended + 1] = value
    end
  elseif has_ended then
    redis.call('ZREM', archived, id)
    redis.call('ZREM', completed, id)
    redis.call('DEL', delivery)
    state = false
  end
  -- the message of a task that holds several slots of its node says how many
  local slots = is_of_node and string.match(msg, ',"slots":(%d+)' .. stamp)
  if slots then
    redis.call('HSET', several, id, slots)
  end
  if not state then
    mark_pending(id, 'msg', msg)
    added[#added + 1], is_new[id] = id, true
  elseif state == 'active' then
    local ends = redis.call('ZSCORE', deadline, id)
    if not ends or tonumber(ends) * 1000 <= now + stale then
      redis.call('LREM', active, 0, id)
      redis.call('ZREM', deadline, id)
      returned[#returned + 1] = id
    end
  elseif state == 'pending' then
    waits = true
    if not string.find(redis.call('HGET', delivery, 'msg') or '', stamp, 1, true) then
      redis.call('HSET', delivery, 'msg', msg)
    end
    if before <= LIST_SEARCHED and not is_new[id] and not redis.call('LPOS', pending, id, 'RANK', -1) then
      returned[#returned + 1] = id
    end
  end
end
if #added > 0 then
  redis.call('LPUSH', pending, unpack(added))
end
put_first(returned)
local came = #added + #returned
if waits then
  wake_all() -- as somebody was woken and did not come
elseif came > 0 and (before == 0 or redis.call('EXISTS', skipped) == 1) then
  wake_some(workers, queue)
end
return { #added, #returned, before + came, ended }
