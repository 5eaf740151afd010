-- examine_live: finds ticks of a schedule that count as live though their tasks have ended or do not exist, and removes them if it is
-- asked to. A tick that waits for them goes on then.
-- includes: clock, state, findings, look
-- keys:
--   live  ZSET  the script makes further keys of the same partition
-- args:
--   checks  text    those that are wanted, each between blanks
--   repair  flag
--   member  member  the schedule
--   wake    channel
--   names   text*   of ticks
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local ended, list = {}, {}
for tick in names() do
  list[#list + 1] = member .. '@' .. tick
end
local states = redis.call('HMGET', states_key(), unpack(list))
local i = 0
for tick in names() do
  i = i + 1
  local exists = redis.call('HEXISTS', defs_key(), list[i]) == 1
  if redis.call('ZSCORE', live, tick) and (not exists or end_of(states[i] or '')) then
    local words = exists and 'has ended' or 'does not exist'
    if report(list[i], 'live-ended', words .. ', and is in ' .. live) then
      ended[#ended + 1] = tick
    end
  end
end
if #ended > 0 then
  redis.call('ZREM', live, unpack(ended))
  local revision, paused = unpack(redis.call('HMGET', schedule_key(member), 'revision', 'paused'))
  if revision and not paused and redis.call('LLEN', waiting_key(member)) > 0 and redis.call('ZCARD', live) == 0 then
    look_at(member, now)
  end
end
return { found }
