-- trigger_schedule: runs a schedule by hand, now, whether or not it is paused. The overlap policy applies. If it has to stop more tasks than
-- one run of a script may, the run waits, and the leader stops the others.
-- includes: clock, refuse, fields, policy, overlap, foresee, wakes, look, asked
-- keys:
--   schedule  HASH  the script makes further keys of the same partition
-- args:
--   member   member
--   at       time    Redis's time when the caller asked for it
--   by       text    who asks for it, with the key of the request behind it; "" if nobody knows
--   key      text    of the request; "" if it has none
--   name     text    of the run, made from that time; it follows the "@" in the id of the task
--   dry      flag    changes nothing, and replies what would change
--   events   channel
--   control  channel
--   wake     channel
-- reply:
--   outcome   tick  triggered or queued
--   reason    text  for the outcome, "" if it needs none
--   decided   time  when the outcome was decided
--   revision  number  of the schedule at that time
--   named     text    the name of the run
--   asked     time    when the caller asked for it
--   tasks     number  live tasks that the run replaces: they are cancelled, or asked to stop
--   ticks     number  waiting ticks that the run replaces
--   examples  text*   names of the first 10 of these tasks
-- refuses:
--   NOT_FOUND  no such schedule
--   BUSY       the overlap policy forbids the run; the detail says why
-- repeat: harmless: it returns the record of that name, or of an earlier request with the same key
-- full: refused
local fields = read_fields(schedule, { 'revision', 'paused', 'def', 'task' })
if not fields.revision then
  return refuse('NOT_FOUND', member)
end

-- known_run returns the record of a run by hand that an earlier request has made, or what is known without it: a ledger
-- that is full forgets records within the hour.
local function known_run(tick, run)
  local waits = redis.call('LPOS', waiting_key(member), int(tick) .. ' ' .. run)
  return find_record(member, tick, run) or {
    outcome = waits and 'queued' or 'triggered', decided = tick, revision = fields.revision, reason = 'asked for by ' .. by,
  }
end

local known, known_at, known_name = find_record(member, at, name), asked_before('trigger', key)
if known or not known_at then
  known_at, known_name = at, name
else
  known = known_run(known_at, known_name)
end
if known then
  return { known.outcome, known.reason, tonumber(known.decided), tonumber(known.revision), known_name, known_at, 0, 0, {} }
end
fields.overlap = policy_of(fields.def).overlap
local busy = first_live(member, 99) or
  not fields.paused and redis.call('LINDEX', waiting_key(member), 0)
if fields.overlap == 'allow' and count_live() >= LIVE_LIMIT then
  return refuse('BUSY', 'too many tasks have not ended')
end
if busy and fields.paused and (fields.overlap == 'queue' or fields.overlap == 'replace') then
  return refuse('BUSY', 'it is paused, so that nothing waits for its turn, and ' .. busy .. ' has not ended')
end
if busy and fields.overlap == 'skip' then
  return refuse('BUSY', busy .. ' has not ended')
end
if fields.overlap == 'queue' and not fields.paused and redis.call('LLEN', waiting_key(member)) >= WAITING_LIMIT then
  return refuse('BUSY', WAITING_LIMIT .. ' ticks wait already')
end

-- as_run returns the outcome of a tick as that of a run by hand, and why.
local function as_run(outcome, reason)
  if by ~= '' then
    reason = reason .. (reason ~= '' and ', asked for by ' or 'asked for by ') .. by
  end
  return outcome == 'fired' and 'triggered' or outcome, reason
end

local over = fields.overlap ~= 'allow' and over_live() or {}
local plan = foresee(fields, over)
if dry then
  local outcome, reason = as_run(plan.outcome, plan.reason)
  return { outcome, reason, now, tonumber(fields.revision), name, at, plan.tasks, plan.ticks, plan.examples }
end

drop_live(over)
local outcome, reason, replaced = apply_overlap(fields, at, name, now)
outcome, reason = as_run(outcome, reason)
if replaced > 0 then
  redis.call('HINCRBY', schedule, 'runs', -replaced)
end
if outcome == 'triggered' then
  wake_leader('task')
end
if replacing then
  look_at(member, now)
end
record_tick(fields.revision, at, name, outcome, outcome == 'triggered' and 1 or 0, 0, reason)
trim_ledger(0)
note_asked('trigger', key, at, name)
return { outcome, reason, now, tonumber(fields.revision), name, at, plan.tasks, plan.ticks, plan.examples }
