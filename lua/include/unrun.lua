-- unrun: tasks of steps of runs of workflows, and whether their runs agree with them.
-- includes: clock, number, state, findings, step

-- restore_state gives a task the state with those fields. A step that has ended is kept for its run, if that runs.
local function restore_state(member, fields)
  local text, run = format_state(fields), run_of(member)
  redis.call('HSET', states_key, member, text)
  if run and fields.finished and redis.call('ZSCORE', running_key, run) then
    keep_step(member, text, '>', now + STEP_RETENTION)
  end
end

-- find_orphan finds that a step has no run. An end that is kept for the run would be kept for ever.
local function find_orphan(member, fields, text)
  if not fields.finished then
    return report_only(member, 'step-orphan', 'is ' .. fields.state .. ', and its run does not exist')
  end
  if text and string.find(text, '^%a+ %d+ %d+>') and
      report(member, 'step-orphan', 'is ' .. fields.state .. ' and kept for its run, which does not exist') then
    keep_step(member, text, '', now + (fields.state == 'failed' and FAILED_RETENTION or DEFAULT_RETENTION))
  end
end

-- find_unrun finds that the task of a step does not agree with its run. fields and text are its state.
local function find_unrun(member, fields, text)
  local run = run_of(member)
  if not run then
    return
  elseif redis.call('HEXISTS', defs_key, run) == 0 then
    return find_orphan(member, fields, text)
  end
  local own = parse_state(redis.call('HGET', states_key, run) or 'scheduled 0')
  if own.finished and not fields.finished then
    report(member, 'run-ahead', 'is ' .. fields.state .. ', and its run has ended')
  elseif own.state == 'running' and fields.finished and text and not string.find(text, '^%a+ %d+ %d+>') and
      report(member, 'step-expires', 'is ' .. fields.state .. ', and can be deleted before its run has ended') then
    keep_step(member, text, '>', now + STEP_RETENTION)
  end
end
