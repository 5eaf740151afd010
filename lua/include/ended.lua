-- ended: the effects of a task's end on the schedule that created it.
-- needs: arg wake
-- includes: clock, number, fields, look, policy, damage, tick_of, track

-- pauses_now returns whether so many tasks in a row that failed pause a schedule with that definition.
local function pauses_now(def, failures)
  local limit = policy_of(def).pause_on_failure
  return limit and failures >= limit or false
end

-- count_failure adds to changed, a list of fields and values, what the failure of a live task changes. Returns true
-- if it pauses the schedule, which has those fields.
local function count_failure(changed, schedule)
  local failures = (tonumber(schedule.failures or '') or 0) + 1
  changed[#changed + 1], changed[#changed + 2] = 'failures', int(failures)
  if schedule.paused or not pauses_now(schedule.def, failures) then
    return false
  end
  local note = 'paused by itself: ' .. int(failures) .. ' tasks in a row failed'
  for _, value in ipairs({ 'paused', int(now), 'note', note }) do
    changed[#changed + 1] = value
  end
  return true
end

-- go_on makes a schedule due if a tick waits and no task is live.
local function go_on(schedule_ref)
  if redis.call('LLEN', waiting_key(schedule_ref)) > 0 and redis.call('ZCARD', live_key(schedule_ref)) == 0 then
    look_at(schedule_ref, now)
  end
end

-- update_schedule does what task_ended says for the task of a tick. A task that is not live was backfilled, or its
-- schedule was deleted.
local function update_schedule(schedule_ref, name, final, text)
  local live = redis.call('ZREM', live_key(schedule_ref), name) == 1
  local def = live and final == 'failed' and 'def' or nil
  local fields = { 'created', 'paused', 'failures', 'ends', 'day', 'tracked', def }
  local schedule = read_fields(schedule_key(schedule_ref), fields)
  if not schedule.created or not live and not is_own(schedule.created, schedule_ref .. '@' .. name) then
    return false
  end
  local changed = record_end(schedule_ref, schedule, name, final, text)
  local pauses = live and final == 'failed' and count_failure(changed, schedule)
  if #changed > 0 then
    redis.call('HSET', schedule_key(schedule_ref), unpack(changed))
  end
  if pauses then
    redis.call('ZREM', ticks_key, schedule_ref)
    return true
  end
  if live and final == 'succeeded' and schedule.failures then
    redis.call('HDEL', schedule_key(schedule_ref), 'failures')
  end
  if live and not schedule.paused then
    go_on(schedule_ref)
  end
  return false
end

-- task_ended updates the schedule of a task that ended in the state final: it records the end, counts failures, and
-- makes the schedule due if a tick waits for the end of the task. text is a state of the task, for note_end. It
-- ignores the tasks of no schedule, and a backfilled one does not count as a failure. Returns true if it paused the
-- schedule, because too many tasks in a row failed. Damage of the schedule keeps no task from ending.
local function task_ended(member, final, text)
  local schedule_ref, name = tick_of(member)
  return schedule_ref and try(update_schedule, schedule_ref, name, final, text) or false
end
