-- ended: what the end of a task means for the schedule that created it.
-- needs: arg wake
-- includes: clock, number, fields, look, policy

-- pause_after_failure counts a failure and pauses the schedule if that makes too many in a row. Returns true if it did.
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

-- task_ended tells the schedule of a tick's task that the task has ended in the state final: the next tick may have
-- waited for it, and failures are counted. Other tasks, and those that do not count for overlap, are left alone.
-- Returns true if the schedule was paused because too many tasks in a row failed.
local function task_ended(member, final)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  if not schedule_ref or redis.call('ZREM', live_key(schedule_ref), name) == 0 then
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

