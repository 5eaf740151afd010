-- backfill_schedule: past ticks of a schedule that did not run get their tasks, due one after the other at a pace. The
-- overlap policy does not apply, and they do not count for it.
-- includes: refuse, ledger, ticks
-- keys:
--   schedule  HASH  further keys of the same partition are made from its name
-- args:
--   member      member
--   pace        ms       between two of them
--   events      channel
--   wake        channel
--   past_ticks  (tick time, name text)*
-- reply:
--   now       time
--   revision  number
--   started   text*  names of the ticks that got their task
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: a tick that has a task, or waits for its turn, is left alone
local revision, def = unpack(redis.call('HMGET', schedule, 'revision', 'task'))
if not revision then
  return refuse('NOT_FOUND', member)
end

local started = {}
for tick, name in past_ticks() do
  local known = find_record(tick, name)
  local ran = known and (known.has_task == '1' or known.outcome == 'queued')
  if not ran and create_task(name, def, now + #started * pace) then
    record_tick(revision, tick, name, 'backfilled', 1, now - tick, 'asked for')
    started[#started + 1] = name
  end
end
trim_ledger(0)
redis.call('PUBLISH', wake, string.match(partition, '{(%d+)}'))
return { now, tonumber(revision), started }
