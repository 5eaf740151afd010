-- extend_runs: a worker extends the leases of its runs. If Redis has lost the begin of one, as after a failover, the run begins again
-- at the time at which it began.
-- includes: clock, number, refuse, state, begun
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   lease  ms  how long the runs are leased from now on
--   runs   (member member, attempt attempt, run run, queued time, started time, limit time)*  queued: when the attempt was
--     claimed; limit: when the lease ends at the latest, none for no limit
-- reply:
--   now      time
--   answers  (refused refusal, cancelled flag)*  for each run; cancelled: its task was asked to stop
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is neither running nor queued; the detail is its state
--   STALE      another attempt, claim or run is current; the detail is the number of the current attempt
--   OVER       the limit is over
-- repeat: harmless: it extends them once more
-- full: works
local members, known = {}, {}
for member, attempt, run, queued, started, limit in runs() do
  members[#members + 1] = member
  known[#known + 1] = { attempt = attempt, run = run, queued = queued, started = started, limit = limit or math.huge }
end
local texts = redis.call('HMGET', states, unpack(members))

-- refusal returns why a run does not go on; nil if it does.
local function refusal(member, fields, run)
  if not fields then
    return refuse('NOT_FOUND', member)
  end
  if fields.state ~= 'running' and fields.state ~= 'queued' then
    return refuse('STATE', fields.state)
  end
  if fields.attempt ~= run.attempt or (fields.state == 'running' and fields.run ~= run.run) or
      (fields.state == 'queued' and tonumber(fields.queued) ~= run.queued) then
    return refuse('STALE', fields.attempt)
  end
  if now >= run.limit then
    return refuse('OVER', member)
  end
end

local answers = {}
for i, member in ipairs(members) do
  local fields = texts[i] and parse_state(texts[i])
  local refused = refusal(member, fields, known[i])
  if not refused then
    local upto = int(math.min(now + lease, known[i].limit))
    if fields.state == 'queued' then
      begin_run(member, texts[i], fields.attempt, known[i].run, int(known[i].started), upto)
    else
      put_later(held_key(), upto, member)
    end
  end
  answers[#answers + 1] = refused and refused.err or ''
  answers[#answers + 1] = not refused and fields.cancel and 1 or 0
end
return { now, answers }
