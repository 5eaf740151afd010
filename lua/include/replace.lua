-- replace: cancels tasks of a schedule to make place for a tick.
-- needs: arg member, arg events, arg control, arg wake
-- includes: number, state, stop, ledger, record

-- is_manual returns whether a name is that of a run by hand.
local function is_manual(name)
  return string.sub(name, -#MANUAL_SUFFIX) == MANUAL_SUFFIX
end

-- is_cancelled returns whether a task was asked to stop.
local function is_cancelled(tick_member)
  local text = redis.call('HGET', states_key, tick_member)
  return text and parse_state(text).cancel
end

local counted = nil -- the number of live tasks; nil after a change of it

-- count_live returns how many tasks are live.
local function count_live()
  counted = counted or redis.call('ZCARD', live_key(member))
  return counted
end

local stops_left = STOP_LIMIT -- how many tasks this run of the script may still stop
local replacing = false -- whether there are further tasks to stop, which other runs of the script do

-- stop_live cancels live tasks for the tick of that name, the oldest first, as many as one run of the script may. From then on, the scores
-- of those that run are negative, so that nobody stops them again. The schedule's field replacing is the name while some are left.
local function stop_live(revision, name)
  local live = redis.call('ZRANGE', live_key(member), '(0', '+inf', 'BYSCORE', 'LIMIT', 0, int(stops_left), 'WITHSCORES')
  for i = 1, #live, 2 do
    local tick_member = member .. '@' .. live[i]
    if not is_cancelled(tick_member) then
      local asked = asked_for(member, live[i + 1], live[i])
      record_tick(revision, live[i + 1], live[i], 'replaced', 1, nil, 'cancelled for ' .. name .. asked)
    end
    stop_task(tick_member, 'the tick ' .. name)
    redis.call('ZADD', live_key(member), 'XX', int(-live[i + 1]), live[i])
  end
  counted = nil -- those that had not begun have ended
  stops_left = stops_left - #live / 2
  replacing = redis.call('ZCOUNT', live_key(member), '(0', '+inf') > 0
  if replacing then
    redis.call('HSET', schedule_key(member), 'replacing', name)
  else
    redis.call('HDEL', schedule_key(member), 'replacing')
  end
end

-- go_on_replacing stops further live tasks, if an earlier run of the script has left some, for the tick that waits for their end. schedule
-- has the fields overlap, revision and replacing.
local function go_on_replacing(schedule)
  if schedule.replacing and schedule.overlap == 'replace' and redis.call('LLEN', waiting_key(member)) > 0 then
    stop_live(schedule.revision, schedule.replacing)
  elseif schedule.replacing then
    redis.call('HDEL', schedule_key(member), 'replacing')
  end
end

-- keep_aside keeps an entry of the list of ticks that wait that is none, for a while, where nobody looks for ticks.
local function keep_aside(entry)
  local kept = aside_key(int(now) .. ':waiting:' .. member)
  redis.call('HSET', kept, entry, '')
  redis.call('PEXPIRE', kept, ASIDE_KEPT)
end

-- replace_live replaces everything before the tick of that name: it drops ticks that wait and cancels live tasks. Returns
-- how many waiting ticks it dropped, without runs by hand.
local function replace_live(revision, name)
  local dropped = 0
  for _, entry in ipairs(redis.call('LRANGE', waiting_key(member), 0, -1)) do
    local tick, waiting_name = string.match(entry, '^(%d+) (%S+)$')
    if tick then
      dropped = dropped + (is_manual(waiting_name) and 0 or 1)
      record_tick(revision, tick, waiting_name, 'replaced', 0, nil, 'gave way to ' .. name .. asked_for(member, tick, waiting_name))
    else -- somebody has written to Redis by hand
      keep_aside(entry)
    end
  end
  redis.call('DEL', waiting_key(member))
  stop_live(revision, name)
  return dropped
end
