-- rouse: wakes workers of a queue: as many as its deliveries need when it was empty, all of them when those were too few. called counts
-- those who were woken and have not taken yet; at 0 all were woken.
-- needs: key called, arg arrivals
-- includes: nothing

-- wake_all wakes all workers of the queue.
local function wake_all()
  redis.call('SET', called, 0, 'PX', CALLED_FOR)
  redis.call('PUBLISH', arrivals, '')
end

-- wake_some wakes workers by their channels, which are in a text, separated by blanks. It wakes all workers if there are none, or if one
-- does not listen: it has died or, in a cluster, listens at another node of Redis.
local function wake_some(channels, queue)
  local count, deaf = 0, false
  for channel in string.gmatch(channels, '%S+') do
    count = count + 1
    deaf = redis.call('PUBLISH', channel, queue) == 0 or deaf
  end
  if count == 0 or deaf then
    return wake_all()
  end
  redis.call('SET', called, count, 'PX', CALLED_FOR)
end

-- left_some is called when a worker has taken and left deliveries. If none of those who were woken is still to come, it wakes all.
local function left_some()
  local others = tonumber(redis.call('GET', called) or 1) - 1
  if others == 0 then
    wake_all()
  elseif others > 0 then
    redis.call('SET', called, others, 'PX', CALLED_FOR)
  end
end
