-- look: makes schedules due, so that the leader plans their ticks.
-- needs: arg wake
-- includes: number, wakes

-- look_at makes a schedule ("namespace:id") due at that time (ms), and wakes the leader if no other one is due before it.
local function look_at(schedule_ref, at)
  redis.call('ZADD', ticks_key, int(at), schedule_ref)
  if redis.call('ZRANGE', ticks_key, 0, 0)[1] == schedule_ref then
    wake_leader('schedule')
  end
end

