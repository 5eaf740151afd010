-- backfill_schedule: creates the tasks of past ticks that did not run, due one after the other. The overlap policy does
-- not apply, and these tasks do not count for it.
-- includes: refuse, ledger, ticks, wakes, asked
-- keys:
--   schedule  HASH  the script makes further keys of the same partition
-- args:
--   member      member
--   pace        ms       between the due times of two tasks
--   reason      text     which their records have
--   key         text     of the request; "" if it has none
--   dry         flag     changes nothing, and replies what would change
--   events      channel
--   wake        channel
--   past_ticks  (tick time, name text)*
-- reply:
--   decided   time   when they got their tasks
--   revision  number
--   reason    text   which their records have
--   started   text*  names of the ticks that got a task
--   left      (name text, waits flag)*  the other ticks; waits: for its turn, so that it has no task yet
-- refuses:
--   NOT_FOUND  no such schedule
-- repeat: harmless: ticks that have a task or wait for their turn are left alone; with a key, it returns what the first
--   one started
-- full: refused
local revision, def, tracked = unpack(redis.call('HMGET', schedule, 'revision', 'task', 'tracked'))
if not revision then
  return refuse('NOT_FOUND', member)
end

-- is_left returns whether a tick, with its record in the ledger, gets no task: it has one, or waits for its turn.
local function is_left(name, known)
  return known and (known.has_task == '1' or known.outcome == 'queued') or has_task(member .. '@' .. name)
end

-- add_left notes a tick that gets no task.
local left = {}
local function add_left(name, known)
  left[#left + 1] = name
  left[#left + 1] = known and known.outcome == 'queued' and 1 or 0
end

local started, first = {}, nil
local asked_at = asked_before('backfill', key)
local ends = 'key ' .. key -- how the reasons of this request end: another one may have come in the same ms
for tick, name in past_ticks() do
  local known = asked_at and find_record(member, tick, name)
  local is_own = known and tonumber(known.decided) == asked_at and string.sub(known.reason, -#ends) == ends
  if is_own and known.outcome == 'backfilled' then
    first, started[#started + 1] = known, name
  else
    add_left(name, known)
  end
end
if first then
  return { tonumber(first.decided), tonumber(first.revision), first.reason, started, left }
end

started, left = {}, {}
for tick, name in past_ticks() do
  local known = find_record(member, tick, name)
  if is_left(name, known) then
    add_left(name, known)
  else
    if not dry then
      create_task(name, def, now + #started * pace)
      if known and is_counted(tracked, known.decided) then
        tally(name, tick, known.outcome, -1) -- it counts as what becomes of its task
      end
      record_tick(revision, tick, name, 'backfilled', 1, now - tick, reason)
    end
    started[#started + 1] = name
  end
end
if not dry then
  if #started > 0 then
    note_asked('backfill', key, now, '')
  end
  trim_ledger(0)
  wake_leader('task')
end
return { now, tonumber(revision), reason, started, left }
