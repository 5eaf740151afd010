-- fire: applies what a leader decided about the ticks of a schedule that are due, all at once: the tasks, the ledger, how
-- far the decisions have come, and when to look again.
-- includes: number, refuse, fence, fields, policy, overlap
-- keys:
--   lease     STRING
--   schedule  HASH    further keys of the same partition are made from its name
-- args:
--   fence      fence     the lease's value while this leader holds it
--   member     member
--   revision   revision  the decisions were made for
--   cursor     time      up to which ticks were decided before
--   upto       time      the cursor from now on
--   upcoming   time      the next tick; none if there is none
--   forgotten  time      up to which ticks get no record, since the ledger could not hold them; none for none
--   events     channel
--   control    channel
--   wake       channel
--   decisions  (tick time, name text, action action, due time, delay ms, reason text)*  action: fire, missed or excluded;
--     due: when its task is due, but at least delay from now
-- reply:
--   now      time
--   decided  (name text, outcome tick)*
-- refuses:
--   FENCED   somebody else leads the partition, or nobody
--   CHANGED  the schedule is not as it was when the leader looked
-- repeat: harmless: the cursor has moved, so it is refused with CHANGED; where there is nothing to decide, it changes
--   nothing
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local fields = read_fields(schedule, { 'revision', 'cursor', 'from', 'paused', 'ended', 'runs', 'def', 'task' })
if fields.revision ~= revision or tonumber(fields.cursor) ~= cursor or fields.paused then
  return refuse('CHANGED', member)
end

local policy = policy_of(fields.def)
fields.overlap = policy.overlap
local runs, from = tonumber(fields.runs or '0'), tonumber(fields.from)
while redis.call('LLEN', waiting_key(member)) > 0 and
    (redis.call('ZCARD', live_key(member)) == 0 or policy.overlap == 'allow') do
  local tick, name = string.match(redis.call('LPOP', waiting_key(member)), '^(%d+) (%S+)$')
  start_tick(tick, name, fields.task, now)
  record_tick(revision, tick, name, is_manual(name) and 'triggered' or 'fired', 1, now - tick, 'waited for the task before it')
end
local last = cursor
for tick, name, action, due, delay, reason in decisions() do
  if runs >= policy.max_runs and tick > from then
    break -- ticks of an earlier definition are decided still; this one has no more
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

redis.call('HSET', schedule, 'cursor', int(upto), 'runs', int(runs))
if not upcoming and not fields.ended then
  redis.call('HSET', schedule, 'ended', int(upto))
end
trim_ledger(forgotten or 0)
if redis.call('LLEN', waiting_key(member)) > 0 and redis.call('ZCARD', live_key(member)) == 0 then
  upcoming = now
end
if upcoming then
  redis.call('ZADD', ticks_key(), int(upcoming), member)
else
  redis.call('ZREM', ticks_key(), member)
end
return { now, recorded }
