-- arrive: puts deliveries that exist into the list of those that wait.
-- needs: key pending
-- includes: clock, number

local since = int(now * 1000000)

-- mark_pending records that a delivery waits from now on, and further fields of it. The caller puts it into the list.
local function mark_pending(id, ...)
  redis.call('HSET', delivery_key(id), 'state', 'pending', 'pending_since', since, ...)
end

-- is_there reports whether a delivery exists: one that waited twice may have been handled in the other place.
local function is_there(id)
  return redis.call('HEXISTS', delivery_key(id), 'msg') == 1
end

-- put_first puts deliveries where the next one is taken. The first of them is taken first.
local function put_first(ids)
  for i = #ids, 1, -1 do
    redis.call('RPUSH', pending, ids[i])
    mark_pending(ids[i])
  end
end
