-- look: when the leader looks at a schedule.
-- needs: arg wake
-- includes: number

-- look_at has the leader look at a schedule ("namespace:id") at that time (ms) and wakes it if no other one is before it.
local function look_at(schedule_ref, at)
  redis.call('ZADD', ticks_key(), int(at), schedule_ref)
  if redis.call('ZRANGE', ticks_key(), 0, 0)[1] == schedule_ref then
    redis.call('PUBLISH', wake, 'tick:' .. string.match(partition, '{(%d+)}'))
  end
end

