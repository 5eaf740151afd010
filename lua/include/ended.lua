-- ended: the effects of a task's end on the schedule that created it.
-- needs: arg wake
-- includes: clock, number, fields, look, policy, damage

-- pause_after_failure counts a failure and pauses the schedule after too many in a row. Returns true if it paused it.
-- paused is nil unless the schedule is paused already.
local function pause_after_failure(schedule_ref, def, paused)
  local failures = redis.call('HINCRBY', schedule_key(schedule_ref), 'failures', 1)
  local limit = policy_of(def).pause_on_failure
  if not limit or failures < limit or paused then
    return false
  end
  redis.call('HSET', schedule_key(schedule_ref), 'paused', int(now), 'note', 'paused by itself: ' .. int(failures) .. ' tasks in a row failed')
  redis.call('ZREM', ticks_key(), schedule_ref)
  return true
end

-- update_schedule does what task_ended says for the task of a tick.
local function update_schedule(schedule_ref, name, final)
  if redis.call('ZREM', live_key(schedule_ref), name) == 0 then
    return false
  end
  local schedule = read_fields(schedule_key(schedule_ref), { 'def', 'paused' })
  if final == 'succeeded' then
    redis.call('HDEL', schedule_key(schedule_ref), 'failures')
  elseif final == 'failed' and schedule.def and pause_after_failure(schedule_ref, schedule.def, schedule.paused) then
    return true
  end
  if not schedule.paused and redis.call('LLEN', waiting_key(schedule_ref)) > 0 and
      redis.call('ZCARD', live_key(schedule_ref)) == 0 then
    look_at(schedule_ref, now)
  end
  return false
end

-- task_ended updates the schedule of a task that ended in the state final: it counts failures, and makes the schedule due
-- if a tick waits for the end of the task. It ignores tasks that are not live: those of no schedule, and backfilled ones.
-- Returns true if it paused the schedule, because too many tasks in a row failed. Damage of the schedule keeps no task from ending.
local function task_ended(member, final)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  return schedule_ref and try(update_schedule, schedule_ref, name, final) or false
end

