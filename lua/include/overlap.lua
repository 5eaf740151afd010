-- overlap: applies the overlap policy to a tick.
-- needs: arg member, arg events, arg control, arg wake
-- includes: number, over, ticks, replace

-- start_live starts a tick, as start_tick does.
local function start_live(tick, name, def, due)
  counted = nil
  start_tick(tick, name, def, due)
end

-- over_live returns the names of live tasks that are over. It looks at 100 tasks.
local function over_live()
  local names = {}
  for _, name in ipairs(redis.call('ZRANGE', live_key(member), 0, 99)) do
    if is_over(member, name) then
      names[#names + 1] = name
    end
  end
  return names
end

-- drop_live makes the tasks of those names live no longer.
local function drop_live(names)
  for _, name in ipairs(names) do
    redis.call('ZREM', live_key(member), name)
    counted = nil
  end
end

-- choose_overlap says what an overlap policy makes of a tick: the outcome, and why. live is how many tasks are live,
-- and ahead how many ticks wait before it, both without what the tick has replaced. oldest is the name of the first
-- live task.
local function choose_overlap(overlap, live, ahead, oldest)
  if overlap == 'queue' and ahead >= WAITING_LIMIT then
    return 'skipped_overlap', int(ahead) .. ' ticks wait already'
  elseif overlap == 'allow' and live >= LIVE_LIMIT then -- with the other policies, a task starts only if none is live
    return 'skipped_overlap', int(live) .. ' tasks have not ended'
  elseif overlap == 'allow' or live + ahead == 0 then -- ticks that wait go first, even if no task is live
    return 'fired', ''
  elseif overlap == 'skip' then
    return 'skipped_overlap', oldest and 'the task of ' .. oldest .. ' has not ended' or 'another tick waits'
  end
  return 'queued', 'waits for the end of the task before it'
end

-- apply_overlap applies the overlap policy to a tick: it creates the task (due at due, ms), or queues the tick, or
-- skips it. If Redis has lost the record of the tick, a worker may have restored its task. Then the tick has run, and
-- its task does not count. schedule has the fields overlap, revision, task (the definition of its tasks) and paused
-- (nil if it is not paused). While it is paused, waiting ticks do not go on. Returns the outcome, the reason, and
-- how many queued runs it replaced.
local function apply_overlap(schedule, tick, name, due)
  if has_task(member .. '@' .. name) then
    return 'fired', 'its task was there already', 0
  end
  local ahead = schedule.paused and 0 or redis.call('LLEN', waiting_key(member))
  local replaced = 0
  if schedule.overlap == 'replace' and count_live() + ahead > 0 then
    replaced, ahead = replace_live(schedule.revision, name), 0
  end
  local live, oldest = count_live(), nil
  if schedule.overlap == 'skip' and live > 0 then
    oldest = redis.call('ZRANGE', live_key(member), 0, 0)[1]
  end
  local outcome, why = choose_overlap(schedule.overlap, live, ahead, oldest)
  if outcome == 'queued' then
    redis.call('RPUSH', waiting_key(member), int(tick) .. ' ' .. name)
  elseif outcome == 'fired' then
    start_live(tick, name, schedule.task, due)
  end
  return outcome, why, replaced
end
