-- backfill: somebody wants past ticks of a schedule to run that did not: each gets its task, one after the other at a
-- pace. The overlap policy has no say, and they do not count for it.
-- keys:
--   1 schedule  HASH  the others, of the same partition, are made from its name
-- args:
--   1 member   "namespace:id"
--   2 ticks    a line each: tick ms, name
--   3 pace     ms between two of them
--   4 keep     records of the ledger
--   5 horizon  ms: older records are forgotten
--   6 events   channel
--   7 wake     channel that leaders listen to
-- reply: {now ms, revision, name of every tick that got its task, ...}
-- refuses:
--   NOTFOUND  no such schedule
-- repeat: harmless: a tick that has a task, or waits for its turn, is left alone
local schedule = KEYS[1]
local member, ticks, pace, keep, horizon, events, wake = unpack(ARGV)

local revision, def = unpack(redis.call('HMGET', schedule, 'revision', 'task'))
if not revision then
  return refuse('NOTFOUND', member)
end

local p, now = partition_of(schedule, member), now_ms()
local s = { p = p, schedule = member, revision = revision, now = now }
local started = { now, tonumber(revision) }
local function taken(tick, name)
  for _, entry in ipairs(redis.call('ZRANGE', p .. 'ledger:' .. member, tick, tick, 'BYSCORE')) do
    local its, outcome, task = string.match(entry, '^(%S+) (%S+) (%d)')
    if its == name and (task == '1' or outcome == 'queued') then
      return true
    end
  end
  return false
end
for tick, name in string.gmatch(ticks, '(%d+) (%S+)\n') do
  local due = now + (#started - 2) * tonumber(pace)
  if not taken(tick, name) and launch(p, member .. '@' .. name, def, due, now, events) then
    record_tick(s, tick, name, 'backfilled', 1, now - tick, 'asked for')
    started[#started + 1] = name
  end
end
trim(schedule, p .. 'ledger:' .. member, keep, horizon, 0)
redis.call('PUBLISH', wake, string.match(p, '{(%d+)}'))
return started
