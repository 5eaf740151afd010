-- wakes: wakes the leader of the partition. It counts how often, so that the leader finds out if it missed a message.
-- needs: arg wake
-- includes: nothing

-- wake_leader has the leader look at the wheel ('task') or at the schedules ('schedule').
local function wake_leader(what)
  redis.call('INCR', wakes_key)
  redis.call('PUBLISH', wake, what)
end
