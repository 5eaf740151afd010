-- fire: applies a leader's plan for the due ticks of a schedule, all or nothing: the tasks, the ledger, the cursor, and
-- when the schedule is due again. With overlap replace it stops some hundred tasks at most, so that it is short; while more are live, the
-- tick waits, and the schedule is due at once for the next ones.
-- includes: number, refuse, fence, fields, policy, overlap, tell
-- keys:
--   lease     STRING
--   schedule  HASH    the script makes further keys of the same partition
-- args:
--   fence      fence     that this leader got with the lease
--   member     member
--   revision   revision  of the schedule for which the plan was made
--   cursor     time      of the schedule for which the plan was made: ticks up to it are decided
--   upto       time      the new cursor
--   upcoming   time      the next tick; none if there is no further one
--   forgotten  time      ticks up to this time get no record, because the ledger cannot hold them; none if all get one
--   full       text      the queue at its capacity, for which no tick is decided; "" for none
--   events     channel
--   control    channel
--   wake       channel
--   changes    channel
--   decisions  (tick time, name text, action action, due time, delay ms, reason text)*  action: fire, missed or excluded.
--     Its task is due at due, but no earlier than delay from now
-- reply:
--   now      time
--   decided  (name text, outcome tick)*  what was recorded, first the ticks that had waited
-- refuses:
--   FENCED   another leader holds the lease of the partition, or none does
--   CHANGED  the schedule has another revision or cursor, or is paused
-- repeat: harmless: the cursor has moved, so it is refused with CHANGED; a plan that does not move the cursor changes
--   nothing but what waits for its turn
-- full: refused
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local fields = read_fields(schedule, { 'revision', 'cursor', 'from', 'paused', 'ended', 'runs', 'def', 'task', 'replacing', 'tracked' })
if fields.revision ~= revision or tonumber(fields.cursor) ~= cursor or fields.paused then
  return refuse('CHANGED', member)
end

redis.call('ZCARD', ledger_key(member)) -- a key of the wrong type ends the script before it writes
count_live() -- and so does this one
local policy = policy_of(fields.def)
fields.overlap = policy.overlap
local runs, from = tonumber(fields.runs or '0'), tonumber(fields.from)
if policy.overlap ~= 'allow' then
  drop_live(over_live()) -- nobody else would
end
go_on_replacing(fields)
while redis.call('LLEN', waiting_key(member)) > 0 and
    (count_live() == 0 or policy.overlap == 'allow') do
  local entry = redis.call('LPOP', waiting_key(member))
  local tick, name = string.match(entry, '^(%d+) (%S+)$')
  if tick then
    start_live(tick, name, fields.task, now)
    local how = is_manual(name) and 'triggered' or 'fired'
    record_tick(revision, tick, name, how, 1, now - tick, 'waited for the task before it' .. asked_for(member, tick, name))
  else -- somebody has written to Redis by hand
    keep_aside(entry)
  end
end
local last = cursor
for tick, name, action, due, delay, reason in decisions() do
  if runs >= policy.max_runs and tick > from then
    break -- ticks of an earlier revision are still decided; the present one has no further runs
  end
  local outcome, has_task = action, 0
  if action == 'fire' and runs >= policy.max_runs then
    outcome, reason = 'missed', 'max_runs is reached'
  elseif action == 'fire' then
    local why, replaced
    outcome, why, replaced = apply_overlap(fields, tick, name, math.max(due, now + delay))
    runs = runs - replaced + (outcome == 'skipped_overlap' and 0 or 1)
    has_task, reason = outcome == 'fired' and 1 or 0, why ~= '' and why or reason
  end
  record_tick(revision, tick, name, outcome, has_task, now - tick, reason)
  last = tick
end
if runs >= policy.max_runs and upto >= from and not fields.ended then
  upto, upcoming = math.max(last, from), nil
end

redis.call('HSET', schedule, 'cursor', int(upto), 'runs', int(runs), 'tracked', fields.tracked or int(now))
if full ~= '' then
  redis.call('HSET', schedule, 'held', int(now) .. ' ' .. full)
end
if not upcoming and not fields.ended then
  redis.call('HSET', schedule, 'ended', int(upto))
  tell({ type = 'schedule.ended', ref = member, at = int(now), revision = revision })
end
trim_ledger(forgotten or 0)
if replacing or redis.call('LLEN', waiting_key(member)) > 0 and count_live() == 0 then
  upcoming = now
end
if upcoming then
  redis.call('ZADD', ticks_key, int(upcoming), member)
else
  redis.call('ZREM', ticks_key, member)
end
return { now, recorded }
