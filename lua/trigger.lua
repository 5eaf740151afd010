-- trigger: somebody runs a schedule by hand, now, paused or not. The overlap policy holds.
-- keys:
--   1 schedule  HASH  the others, of the same partition, are made from its name
-- args:
--   1 member   "namespace:id"
--   2 at       ms: Redis's time when the caller looked
--   3 name     of the run, made from that time: what stands behind the "@" in its task's id
--   4 bound    ticks that may wait for their turn
--   5 keep     records of the ledger
--   6 horizon  ms: older records are forgotten
--   7 events   channel
--   8 control  channel that workers listen to
--   9 wake     channel that leaders listen to
-- reply: {outcome, reason, now ms, revision}
-- refuses:
--   NOTFOUND  no such schedule
--   BUSY      the overlap policy keeps it from running; the detail says what is in the way
-- repeat: harmless: what the name already stands for is answered
local schedule = KEYS[1]
local member, at, name, bound, keep, horizon, events, control, wake = unpack(ARGV)

local revision, paused, overlap, retention, def =
  unpack(redis.call('HMGET', schedule, 'revision', 'paused', 'overlap', 'retention', 'task'))
if not revision then
  return refuse('NOTFOUND', member)
end
local p = partition_of(schedule, member)
for _, entry in ipairs(redis.call('ZRANGE', p .. 'ledger:' .. member, at, at, 'BYSCORE')) do
  local its, outcome, _, _, decided, of, reason = string.match(entry, '^(%S+) (%S+) (%d) (%S+) (%d+) (%d+) (.*)$')
  if its == name then
    return { outcome, reason, tonumber(decided), tonumber(of) }
  end
end
local busy = redis.call('ZRANGE', p .. 'live:' .. member, 0, 0)[1] or
  not paused and redis.call('LINDEX', p .. 'waiting:' .. member, 0)
if redis.call('ZCARD', p .. 'live:' .. member) >= 10000 then -- schedule.LiveLimit
  return refuse('BUSY', 'too many tasks have not ended')
end
if busy and paused and (overlap == 'queue' or overlap == 'replace') then
  return refuse('BUSY', 'it is paused, so that nothing waits for its turn, and ' .. busy .. ' has not ended')
end
if busy and overlap == 'skip' then
  return refuse('BUSY', busy .. ' has not ended')
end
if overlap == 'queue' and not paused and redis.call('LLEN', p .. 'waiting:' .. member) >= tonumber(bound) then
  return refuse('BUSY', bound .. ' ticks wait already')
end

local now = now_ms()
local s = { p = p, schedule = member, revision = revision, overlap = overlap, bound = tonumber(bound), def = def,
  retention = retention, now = now, events = events, control = control, wake = wake, paused = paused }
local outcome, reason, fewer = admit(s, at, name, now)
if fewer > 0 then
  redis.call('HINCRBY', schedule, 'runs', -fewer)
end
if outcome == 'fired' then
  outcome = 'triggered'
  redis.call('PUBLISH', wake, string.match(p, '{(%d+)}'))
end
record_tick(s, at, name, outcome, outcome == 'triggered' and 1 or 0, 0, reason)
trim(schedule, p .. 'ledger:' .. member, keep, horizon, 0)
return { outcome, reason, now, tonumber(revision) }
