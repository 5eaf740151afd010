-- ticks: creates the tasks of ticks. member is the schedule's "namespace:id".
-- needs: arg member, arg events
-- includes: clock, number, events

-- create_task creates the task of the tick of that name, due at that time (ms). Returns false if the task exists already.
local function create_task(name, def, due)
  local tick_member = member .. '@' .. name
  if redis.call('EXISTS', task_key(tick_member)) == 1 then
    return false
  end
  redis.call('HSET', task_key(tick_member), 'state', 'scheduled', 'created', int(now), 'due', int(due), 'def', def)
  redis.call('ZADD', wheel_key(), int(due), tick_member)
  announce('scheduled', tick_member, 'scheduled', '0', '', def, ',"due":' .. int(due))
  return true
end

-- start_tick creates the task of a tick (ms) and makes it live. Returns false if the task exists already.
local function start_tick(tick, name, def, due)
  local created = create_task(name, def, due)
  if created then
    redis.call('ZADD', live_key(member), int(tick), name)
  end
  return created
end

