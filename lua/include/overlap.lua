-- overlap: applies the overlap policy to a tick.
-- needs: arg member, arg events, arg control, arg wake
-- includes: number, over, ticks, replace

-- start_live starts a tick, as start_tick does.
local function start_live(tick, name, def, due)
  counted = nil
  start_tick(tick, name, def, due)
end

-- drop_ended makes up to 100 tasks live no longer that are over: nobody else would.
local function drop_ended()
  for _, name in ipairs(redis.call('ZRANGE', live_key(member), 0, 99)) do
    if is_over(member, name) then
      redis.call('ZREM', live_key(member), name)
      counted = nil
    end
  end
end

-- apply_overlap applies the overlap policy to a tick: it creates the task (due at due, ms), or queues the tick, or skips it. If Redis has lost
-- the record of the tick, and a worker has restored the task, the tick has run and is not in its own way.
-- schedule has the fields overlap, revision, task (the definition of its tasks) and paused (nil if it is not paused; while
-- it is paused, waiting ticks do not go on). Returns the outcome, the reason, and how many queued runs it replaced.
local function apply_overlap(schedule, tick, name, due)
  if has_task(member .. '@' .. name) then
    return 'fired', 'its task was there already', 0
  end
  local ahead = schedule.paused and 0 or redis.call('LLEN', waiting_key(member))
  local live, replaced = count_live(), 0
  local busy = live + ahead > 0 -- ticks that wait go first, even if no task is live
  if busy and schedule.overlap == 'replace' then
    replaced = replace_live(schedule.revision, name)
    busy = count_live() > 0
  end
  if schedule.overlap == 'queue' and ahead >= WAITING_LIMIT then
    return 'skipped_overlap', int(ahead) .. ' ticks wait already', 0
  end
  if schedule.overlap == 'allow' and live >= LIVE_LIMIT then -- with the other policies, a task starts only if none is live
    return 'skipped_overlap', int(live) .. ' tasks have not ended', 0
  end
  if busy and schedule.overlap == 'skip' then
    local oldest = redis.call('ZRANGE', live_key(member), 0, 0)[1]
    return 'skipped_overlap', oldest and 'the task of ' .. oldest .. ' has not ended' or 'another tick waits', 0
  end
  if busy and schedule.overlap ~= 'allow' then
    redis.call('RPUSH', waiting_key(member), int(tick) .. ' ' .. name)
    return 'queued', 'waits for the end of the task before it', replaced
  end
  start_live(tick, name, schedule.task, due)
  return 'fired', '', replaced
end

