-- scheduled_tick: updates the schedule whose tick created a task.
-- includes: number, chunk

-- outcome_with_task returns the recorded outcome of a tick (ms) for which a task was created, named member; nil if there is no such record.
local function outcome_with_task(member, tick)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  for _, entry in ipairs(redis.call('ZRANGE', ledger_key(schedule_ref), int(tick), int(tick), 'BYSCORE')) do
    local entry_name, outcome, has_task = string.match(entry, '^(%S+) (%S+) (%d)')
    if entry_name == name and has_task == '1' then
      return outcome
    end
  end
  local chunk, first = unpack(redis.call('ZRANGE', ledger_key(schedule_ref), int(tick), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES'))
  if string.match(chunk or '', CHUNK) and string.sub(name, -1) == 'Z' then
    for _, record in ipairs(unpack_ticks(chunk, first)) do
      if record.tick == tick then
        return 'fired'
      end
    end
  end
end

-- live_again makes the task of a tick (ms) live again, unless its schedule does not exist any more or it was backfilled, so that it does not
-- count for overlap.
local function live_again(member, tick)
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  if outcome_with_task(member, tick) ~= 'backfilled' and redis.call('EXISTS', schedule_key(schedule_ref)) == 1 then
    redis.call('ZADD', live_key(schedule_ref), int(tick), name)
  end
end

