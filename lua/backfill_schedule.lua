-- backfill_schedule: creates the tasks of past ticks that did not run, due one after the other. The overlap policy does
-- not apply, and these tasks do not count for it.
-- includes: refuse, ledger, ticks, wakes, asked
-- keys:
--   schedule  HASH  the script makes further keys of the same partition
-- args:
--   member      member
--   pace        ms       between the due times of two tasks
--   reason      text     which their records have
--   key         text     what reasons of requests with the same key end with; "" if the request has none
--   events      channel
--   wake        channel
--   past_ticks  (tick time, name text)*
-- reply:
--   decided   time   when they got their tasks
--   revision  number
--   reason    text   which their records have
--   started   text*  names of the ticks that got a task
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: ticks that have a task or wait for their turn are left alone. With a key, it returns what the first one started
-- full: refused
local revision, def, tracked = unpack(redis.call('HMGET', schedule, 'revision', 'task', 'tracked'))
if not revision then
  return refuse('NOT_FOUND', member)
end

local started, first = {}, nil
for tick, name in past_ticks() do
  local known = key ~= '' and find_record(member, tick, name)
  if known and known.outcome == 'backfilled' and has_key(known.reason, key) and tonumber(known.decided) > now - ASKED_FOR then
    first, started[#started + 1] = known, name
  end
end
if first then
  return { tonumber(first.decided), tonumber(first.revision), first.reason, started }
end

for tick, name in past_ticks() do
  local known = find_record(member, tick, name)
  local ran = known and (known.has_task == '1' or known.outcome == 'queued')
  if not ran and create_task(name, def, now + #started * pace) then
    if known and is_counted(tracked, known.decided) then
      tally(name, tick, known.outcome, -1) -- it counts as what becomes of its task
    end
    record_tick(revision, tick, name, 'backfilled', 1, now - tick, reason)
    started[#started + 1] = name
  end
end
trim_ledger(0)
wake_leader('task')
return { now, tonumber(revision), reason, started }
