-- ready: the sets of ready tasks, by the names of queues and lanes.
-- includes: clock, number, state, changes

local BROKEN_PAUSE = 5000 -- ms for which a due task stays on the wheel that can wait nowhere: a repair may be soon
local kinds = {} -- by name: the type of its set before this script changes it

-- kind_of returns the type of the set of a name: 'none' if no task waits under it.
local function kind_of(name)
  kinds[name] = kinds[name] or redis.call('TYPE', ready_key(name)).ok
  return kinds[name]
end

-- is_broken returns whether no task can wait under a name, as somebody has written to Redis by hand.
local function is_broken(name)
  return kind_of(name) ~= 'zset' and kind_of(name) ~= 'none'
end

-- stay_on_wheel has the leader look at a due task again after a pause. is_moved says that a node has given it up.
local function stay_on_wheel(member, pause, is_moved)
  local due = now + (pause or BROKEN_PAUSE)
  later.due = math.min(later.due, due)
  put_later(wheel_key, is_moved and string.format('%.1f', due - MOVED_MARK) or int(due), member)
end

-- note_limits notes under which limits a task waits, so that it is found in its lane.
local function note_limits(member, limits)
  if not limits then
    return
  end
  local text = redis.call('HGET', states_key, member) or 'scheduled 0 0'
  if limits_in(text) ~= limits then
    text = string.gsub(text, '^(%a+ %d+)$', '%1 0')
    text = string.gsub(text, '^(%a+ %d+ %d+>?)%S*', function(start) return start .. '+' .. limits end)
    set_later(states_key, member, text)
  end
end
