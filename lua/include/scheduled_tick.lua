-- scheduled_tick: updates the schedule whose tick created a task.
-- includes: number, record, damage

-- outcome_with_task returns the recorded outcome of a tick (ms) for which a task was created, named member; nil if there is no such record.
local function outcome_with_task(member, tick)
  local record = try(find_record, string.match(member, '^([^@]+)@'), tick, string.match(member, '@(.+)$'))
  return record and record.has_task == '1' and record.outcome or nil
end

-- make_live does what live_again says.
local function make_live(member, tick)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  if outcome_with_task(member, tick) ~= 'backfilled' and redis.call('EXISTS', schedule_key(schedule_ref)) == 1 then
    redis.call('ZADD', live_key(schedule_ref), int(tick), name)
  end
end

-- live_again makes the task of a tick (ms) live again, unless its schedule does not exist any more or is damaged. A
-- task that was backfilled is never live, as it does not count for overlap.
local function live_again(member, tick)
  try(make_live, member, tick)
end
