-- scheduled_tick: updates the schedule whose tick created a task.
-- includes: number

-- was_backfilled returns whether a backfill created the task of a tick (ms), which then does not count for overlap.
local function was_backfilled(schedule_ref, tick, name)
  for _, entry in ipairs(redis.call('ZRANGE', ledger_key(schedule_ref), int(tick), int(tick), 'BYSCORE')) do
    local entry_name, outcome = string.match(entry, '^(%S+) (%S+)')
    if entry_name == name and outcome == 'backfilled' then
      return true
    end
  end
  return false
end

-- live_again makes the task of a tick (ms) live again, unless its schedule does not exist any more or it was backfilled.
local function live_again(member, tick)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  if not was_backfilled(schedule_ref, tick, name) and redis.call('EXISTS', schedule_key(schedule_ref)) == 1 then
    redis.call('ZADD', live_key(schedule_ref), int(tick), name)
  end
end

