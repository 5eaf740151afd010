-- fire: a leader has decided about the ticks of a schedule that are due; what it decided becomes so, all at once: the
-- tasks, the ledger, how far the decisions have come, and when to look again.
-- keys:
--   1 lease     STRING  of the partition
--   2 schedule  HASH    the others, of the same partition, are made from its name
-- args:
--   1 fence      the lease's value while this leader holds it
--   2 member     "namespace:id"
--   3 revision   the decisions were made for
--   4 cursor     ms: what was decided before
--   5 upto       ms: the cursor from now on
--   6 next       ms of the next tick, "" if there is none
--   7 decisions  a line each: tick ms, name, fire, missed or excluded, ms at which its task is due, ms it waits at
--                least, reason
--   8 forgotten  ms up to which ticks get no record, since the ledger could not hold them; "" for none
--   9 bound      ticks that may wait for their turn
--   10 keep      records of the ledger
--   11 horizon   ms: older records are forgotten
--   12 events    channel
--   13 control   channel that workers listen to
--   14 wake      channel that leaders listen to
-- reply: {now ms, name and outcome of every tick that was decided, ...}
-- refuses:
--   FENCED   somebody else leads the partition, or nobody
--   CHANGED  the schedule is not as it was when the leader looked
-- repeat: harmless: the cursor has moved, so it is refused with CHANGED; where there is nothing to decide, it finds
--   nothing to do
local lease, schedule = KEYS[1], KEYS[2]
local fence, member, revision, cursor, upto, upnext, decisions, forgotten, bound, keep, horizon, events, control, wake =
  unpack(ARGV)

if redis.call('GET', lease) ~= fence then
  return refuse('FENCED', redis.call('GET', lease) or 'no leader')
end
local current, reached, from, paused, ended, runs, overlap, max_runs, retention, def = unpack(redis.call('HMGET', schedule,
  'revision', 'cursor', 'from', 'paused', 'ended', 'runs', 'overlap', 'max_runs', 'retention', 'task'))
if current ~= revision or reached ~= cursor or paused then
  return refuse('CHANGED', member)
end

local p, now = partition_of(schedule, member), now_ms()
local live, waiting, ledger = p .. 'live:' .. member, p .. 'waiting:' .. member, p .. 'ledger:' .. member
local s = { p = p, schedule = member, revision = revision, overlap = overlap, bound = tonumber(bound), def = def,
  retention = retention, now = now, events = events, control = control, wake = wake, decided = { now } }
runs, max_runs = tonumber(runs or '0'), tonumber(max_runs) > 0 and tonumber(max_runs) or math.huge
local function decide(tick, name, outcome, task, reason)
  record_tick(s, tick, name, outcome, task, now - tick, reason)
end

while redis.call('LLEN', waiting) > 0 and (redis.call('ZCARD', live) == 0 or overlap == 'allow') do
  local tick, name = string.match(redis.call('LPOP', waiting), '^(%d+) (%S+)$')
  start(s, tick, name, now)
  decide(tick, name, string.sub(name, -7) == '-manual' and 'triggered' or 'fired', 1, 'waited for the task before it')
end
local last = cursor
for tick, name, action, due, delay, reason in string.gmatch(decisions, '(%d+) (%S+) (%S+) (%d+) (%d+) ([^\n]*)\n') do
  if runs >= max_runs and tonumber(tick) > tonumber(from) then
    break -- an earlier definition's ticks are decided still, its own are none any more
  end
  if action ~= 'fire' then
    decide(tick, name, action, 0, reason)
  elseif runs >= max_runs then
    decide(tick, name, 'missed', 0, 'max_runs is reached')
  else
    local outcome, why, fewer = admit(s, tick, name, math.max(tonumber(due), now + tonumber(delay)))
    runs = runs - fewer + (outcome == 'skipped_overlap' and 0 or 1)
    decide(tick, name, outcome, outcome == 'fired' and 1 or 0, why ~= '' and why or reason)
  end
  last = tick
end
if runs >= max_runs and tonumber(upto) >= tonumber(from) and not ended then
  upto, upnext = int(math.max(tonumber(last), tonumber(from))), ''
end

redis.call('HSET', schedule, 'cursor', upto, 'runs', int(runs))
if upnext == '' and not ended then
  redis.call('HSET', schedule, 'ended', upto)
end
trim(schedule, ledger, keep, horizon, tonumber(forgotten) or 0)
if redis.call('LLEN', waiting) > 0 and redis.call('ZCARD', live) == 0 then
  upnext = int(now)
end
if upnext == '' then
  redis.call('ZREM', p .. 'ticks', member)
else
  redis.call('ZADD', p .. 'ticks', upnext, member)
end
return s.decided
