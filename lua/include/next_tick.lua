-- next_tick: when the schedule that created a task ticks next.
-- includes: damage, tick_of

-- read_next does what next_tick_of says for the task of a tick.
local function read_next(schedule_ref, name)
  return redis.call('ZSCORE', live_key(schedule_ref), name) and redis.call('ZSCORE', ticks_key, schedule_ref) or nil
end

-- next_tick_of returns when the next tick of the schedule of a live task is due (ms, text). It is nil for any other
-- task, as one that was submitted or backfilled. It is nil, too, while the schedule has no next tick: it is paused, has
-- ended, or was deleted.
local function next_tick_of(member)
  local schedule_ref, name = tick_of(member)
  return schedule_ref and try(read_next, schedule_ref, name)
end
