-- progress: the running attempt says how far it is.
-- keys:
--   1 task  HASH
-- args:
--   1 member    "namespace:id"
--   2 attempt   number of the attempt that reports
--   3 run       token of the run that reports, or "" where somebody reports in its name
--   4 progress  percent, 0 to 100
--   5 events    channel
-- reply: 1
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task does not run; the detail is its state
--   STALE     another attempt, or another run of it, is the one that counts
-- repeat: harmless: it says the same again
local task = KEYS[1]
local member, attempt, run, progress, events = unpack(ARGV)

local state, current, owner, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or (run ~= '' and owner ~= run) then
  return refuse('STALE', current)
end

redis.call('HSET', task, 'progress', progress)
announce(events, 'progress', member, state, attempt, node, now_ms(), def, ',"progress":' .. progress)
return 1
