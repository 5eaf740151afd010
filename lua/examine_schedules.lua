-- examine_schedules: finds what of schedules does not fit together, each schedule in one moment, and repairs it if it is asked to: leaders
-- look at the schedules whose ticks they have to plan, and nothing is left of schedules that do not exist.
-- includes: clock, findings, look
-- keys:
--   schedules  ZSET  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   wake     channel
--   members  text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused

-- clear finds what is left of a schedule that does not exist.
local function clear(member)
  local places = {}
  for _, key in ipairs({ history_key(member), live_key(member), waiting_key(member), ledger_key(member) }) do
    if redis.call('EXISTS', key) == 1 then
      places[#places + 1] = key
    end
  end
  for _, set in ipairs({ schedules, ticks_key() }) do
    if redis.call('ZSCORE', set, member) then
      places[#places + 1] = set
    end
  end
  if #places > 0 and report(member, 'schedule-leftovers', 'does not exist, and is left in ' .. table.concat(places, ', ')) then
    redis.call('UNLINK', history_key(member), live_key(member), waiting_key(member), ledger_key(member))
    redis.call('ZREM', schedules, member)
    redis.call('ZREM', ticks_key(), member)
  end
end

-- missed returns why the leader does not look at a schedule though it has to; nil if it does.
local function missed(member, ended, at)
  if not ended and not at then
    return 'is active, and not in ' .. ticks_key()
  end
  local waits = redis.call('LLEN', waiting_key(member)) > 0 and redis.call('ZCARD', live_key(member)) == 0
  if waits and (not at or tonumber(at) > now) then
    return 'has a tick that waits though no task of it is live, and the leader does not look at it now'
  end
end

for member in members() do
  local revision, paused, ended = unpack(redis.call('HMGET', schedule_key(member), 'revision', 'paused', 'ended'))
  local at = redis.call('ZSCORE', ticks_key(), member)
  if not revision and redis.call('EXISTS', schedule_key(member)) == 0 then
    clear(member)
  elseif not revision then
    report(member, 'schedule-unreadable', 'cannot be read: it has no revision')
  else
    if not redis.call('ZSCORE', schedules, member) and report(member, 'schedule-drift', 'is not in ' .. schedules) then
      redis.call('ZADD', schedules, 0, member)
    end
    if paused and at and report(member, 'schedule-drift', 'is paused, and in ' .. ticks_key()) then
      redis.call('ZREM', ticks_key(), member)
    end
    local why = not paused and missed(member, ended, at)
    if why and report(member, 'schedule-not-looked-at', why) then
      look_at(member, now)
    end
  end
end
return { found }
