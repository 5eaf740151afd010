-- extend_runs: a worker extends the leases of its runs. If Redis has lost the begin of one, as after a failover, and the claim with it, the
-- run begins again at the time at which it began. A run whose limit is over begins with a lease that has ended, so that the leader ends the
-- attempt as lost and nobody begins it again.
-- includes: clock, number, refuse, state, begun, reclaim, wakes
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   wake   channel
--   lease  ms  how long the runs are leased from now on
--   runs   (member member, attempt attempt, run run, queued time, started time, limit time)*  queued: when the attempt was
--     claimed; limit: when the lease ends at the latest, none for no limit
-- reply:
--   now      time
--   answers  (refused refusal, cancelled flag, moving flag, unbegun flag)*  for each run; cancelled: its task was asked to
--     stop; moving: it was asked to move; unbegun: Redis did not know that it had begun
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has ended, or waits for the attempt; the detail is its state
--   STALE      another attempt, task or run is current; the detail is the number of the current attempt
--   OVER       the limit is over, and the run is current or begins again
-- repeat: harmless: it extends them once more
-- full: works
local members, known = {}, {}
for member, attempt, run, queued, started, limit in runs() do
  members[#members + 1] = member
  known[#known + 1] = { attempt = attempt, run = run, queued = queued, started = started, limit = limit or math.huge }
end
local texts = redis.call('HMGET', states, unpack(members))

-- over returns the refusal of a run whose limit is over; nil of another one.
local function over(member, run)
  if now >= run.limit then
    return refuse('OVER', member)
  end
end

-- extend extends the lease of a run. It returns the refusal, the fields of the task's state, nil if it has just begun
-- again, and whether Redis did not know that the run had begun.
local function extend(member, text, run)
  local upto = int(math.min(now + lease, run.limit))
  local refused, fields = not_current(member, text, run.attempt, run.run)
  local queued_text = unbegun_state(member, text, run.attempt, run.queued)
  if queued_text then
    begin_run(member, queued_text, run.attempt, run.run, int(run.started), upto)
    return over(member, run), nil, true
  end
  refused = refused or over(member, run)
  if not refused then
    put_later(held_key, upto, member)
  end
  return refused, fields, false
end

local answers, any_unbegun = {}, false
for i, member in ipairs(members) do
  local refused, fields, unbegun = extend(member, texts[i], known[i])
  any_unbegun = any_unbegun or unbegun
  answers[#answers + 1] = refused and refused.err or ''
  answers[#answers + 1] = not refused and fields and fields.cancel and 1 or 0
  answers[#answers + 1] = not refused and fields and fields.moving and 1 or 0
  answers[#answers + 1] = unbegun and 1 or 0
end
if any_unbegun then
  wake_leader('task') -- who does not know that there is a lease to watch
end
return { now, answers }
