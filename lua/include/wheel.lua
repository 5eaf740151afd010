-- wheel: schedules tasks.
-- needs: key wheel, arg wake
-- includes: number

-- put_on_wheel schedules a task for due (ms), and wakes the leader if no other task is due before it.
local function put_on_wheel(member, due)
  redis.call('ZADD', wheel, int(due), member)
  if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
    redis.call('PUBLISH', wake, string.match(wheel, '{(%d+)}'))
  end
end

