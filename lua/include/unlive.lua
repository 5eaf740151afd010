-- unlive: tasks of ticks that have not ended, and that their schedules do not count as live.
-- includes: clock, number, findings, damage, scheduled_tick, tick_of

-- misses_live returns whether a schedule has to count the task of a tick (ms) as live, and does not. One that was
-- backfilled does not count, nor one of a deleted schedule of that name.
local function misses_live(member, schedule_ref, name, record, tick)
  local live = live_key(schedule_ref)
  if redis.call('TYPE', live).ok == 'zset' and redis.call('ZSCORE', live, name) then
    return false
  end
  local created, forgotten = unpack(redis.call('HMGET', schedule_key(schedule_ref), 'created', 'known'))
  if not created or tonumber(created) > tonumber(string.sub(record, 1, 13)) then
    return false
  end
  local outcome = outcome_with_task(member, tick)
  return outcome ~= 'backfilled' and (outcome or tick > tonumber(forgotten or 0))
end

-- count_as_live makes the task of a tick live. A key of the wrong type is put aside in the same moment, so that no tick
-- starts in between.
local function count_as_live(schedule_ref, name, tick)
  local live = live_key(schedule_ref)
  local kind = redis.call('TYPE', live).ok
  if kind ~= 'zset' and kind ~= 'none' then
    local kept = aside_key(int(now) .. ':live:' .. schedule_ref)
    redis.call('RENAME', live, kept)
    redis.call('PEXPIRE', kept, ASIDE_KEPT)
  end
  redis.call('ZADD', live, int(tick), name)
end

-- find_unlive finds that a schedule does not count a task in a state as live; tick is nil for a task of no tick.
local function find_unlive(member, state, record, tick)
  local schedule_ref, name = tick_of(member)
  if not tick or not schedule_ref then
    return
  end
  local looked, missing = pcall(misses_live, member, schedule_ref, name, record, tick)
  if not looked and not is_damage(missing) then
    error(missing, 0)
  elseif not looked then
    pass_over(member, 'belongs to a schedule of which a key or a value is damaged', { 'live-lost' })
  elseif missing and report(member, 'live-lost', 'is ' .. state .. ', and not in ' .. live_key(schedule_ref)) then
    count_as_live(schedule_ref, name, tick)
  end
end
