-- ready: the sets of ready tasks, by the names of queues and lanes.
-- includes: clock, number, changes

local BROKEN_PAUSE = 60000 -- ms for which a due task stays on the wheel that can wait nowhere
local broken = {} -- by name: whether its set is another key, as somebody has written to Redis by hand

-- is_broken returns whether no task can wait under a name.
local function is_broken(name)
  if broken[name] == nil then
    local kind = redis.call('TYPE', ready_key(name)).ok
    broken[name] = kind ~= 'zset' and kind ~= 'none'
  end
  return broken[name]
end

-- stay_on_wheel has the leader look at a due task again in a minute.
local function stay_on_wheel(member)
  put_later(wheel_key(), int(now + BROKEN_PAUSE), member)
end
