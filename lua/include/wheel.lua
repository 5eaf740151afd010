-- wheel: has tasks wait for their time.
-- needs: key wheel, arg wake
-- includes: number

-- put_on_wheel has a task wait until due (ms) and wakes the leader if no other task is due before it.
local function put_on_wheel(member, due)
  redis.call('ZADD', wheel, int(due), member)
  if redis.call('ZRANGE', wheel, 0, 0)[1] == member then
    redis.call('PUBLISH', wake, string.match(wheel, '{(%d+)}'))
  end
end

