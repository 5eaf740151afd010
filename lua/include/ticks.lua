-- ticks: creates the tasks of ticks. member is the schedule's "namespace:id".
-- needs: arg member, arg events, arg wake
-- includes: clock, number, definition, events, noted, starting

-- has_task reports whether a tick has a task, or had one that was restored, and that has been deleted since.
local function has_task(tick_member)
  return redis.call('HEXISTS', defs_key, tick_member) == 1 or redis.call('HEXISTS', remembered_key, tick_member) == 1
end

-- create_task creates the task of the tick of that name, due at that time (ms). Returns false if the tick has one.
local function create_task(name, def, due)
  local tick_member = member .. '@' .. name
  if has_task(tick_member) then
    return false
  end
  local stored, payload = split_payload(def)
  redis.call('HSET', defs_key, tick_member, int(now) .. stored)
  if payload then
    redis.call('HSET', payloads_key, tick_member, payload)
  end
  redis.call('ZADD', wheel_key, int(due), tick_member)
  note_start_by(tick_member, int(now) .. stored, due)
  if due > now then
    note_row(tick_member)
  end
  announce('scheduled', tick_member, 'scheduled', '0', '', int(now) .. def, ',"due":' .. int(due))
  return true
end

-- start_tick creates the task of a tick (ms), unless it has one, and makes it live.
local function start_tick(tick, name, def, due)
  if create_task(name, def, due) then
    redis.call('ZADD', live_key(member), int(tick), name)
  end
end

