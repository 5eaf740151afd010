-- foresee: what would become of a run of a schedule by hand, and what it would replace. It changes nothing.
-- needs: arg member, arg events, arg control, arg wake
-- includes: over, stop, overlap

-- ends_at_once returns whether a task ends when it is stopped, as nobody runs it.
local function ends_at_once(name)
  local tick_member = member .. '@' .. name
  local task_state = state_of(tick_member, redis.call('HGET', defs_key, tick_member))
  return task_state and (task_state.state == 'scheduled' or task_state.state == 'queued')
end

-- foresee says what becomes of a run: its outcome, its reason, how many tasks and waiting ticks it replaces, and the
-- names of the first 10 of these tasks (examples). schedule is as for apply_overlap; over are the names of over_live.
local function foresee(schedule, over)
  local live, ahead = count_live() - #over, schedule.paused and 0 or redis.call('LLEN', waiting_key(member))
  local plan = { tasks = 0, ticks = 0, examples = {} }
  if schedule.overlap == 'replace' and live + ahead > 0 then
    local replaced = redis.call('ZRANGE', live_key(member), '(0', '+inf', 'BYSCORE', 'LIMIT', 0, STOP_LIMIT + #over)
    plan.tasks = redis.call('ZCOUNT', live_key(member), '(0', '+inf')
    for _, name in ipairs(replaced) do
      if is_over(member, name) then
        plan.tasks = plan.tasks - 1
      else
        live = live - (ends_at_once(name) and 1 or 0)
        plan.examples[#plan.examples + 1] = #plan.examples < 10 and name or nil
      end
    end
    plan.ticks, ahead = redis.call('LLEN', waiting_key(member)), 0
  end
  plan.outcome, plan.reason = choose_overlap(schedule.overlap, live, ahead)
  return plan
end
