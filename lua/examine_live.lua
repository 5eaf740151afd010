-- examine_live: finds ticks of a schedule that count as live though their tasks have ended or do not exist, and removes them if it is
-- asked to. A tick that waits for them goes on then.
-- includes: clock, over, findings, look
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
local ended = {}
for tick in names() do
  local how = redis.call('ZSCORE', live, tick) and is_over(member, tick)
  if how and report(member .. '@' .. tick, 'live-ended', how .. ', and is in ' .. live) then
    ended[#ended + 1] = tick
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
