-- prelude: stands in front of every script. It defines local functions only and changes nothing by itself.

-- now_ms is Redis's time in ms: the one clock. Scripts call it once.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- int writes a number as an integer: Lua's own way to join numbers and strings loses digits from 1e14 on.
local function int(n)
  return string.format('%.0f', n)
end

-- refuse answers with an error whose first word is a code that the script's header lists.
local function refuse(code, detail)
  return redis.error_reply(code .. ' ' .. (detail or ''))
end

-- head is the part of a definition that describes the task; the payload follows after the first line break.
local function head(def)
  return string.sub(def, 1, string.find(def, '\n', 1, true) - 1)
end

-- announce publishes what became of a task. member is "namespace:id". more is "" or further JSON members
-- that begin with a comma. Ids, states and nodes cannot contain anything that JSON would have to escape.
local function announce(channel, kind, member, state, attempt, node, now, def, more)
  redis.call('PUBLISH', channel, '{"type":"task.' .. kind .. '","ref":"' .. member .. '","state":"' .. state ..
    '","attempt":' .. attempt .. ',"node":"' .. (node or '') .. '","at":' .. int(now) .. ',"head":' .. head(def) ..
    more .. '}')
end

-- record_attempt appends the end of an attempt to the task's history and keeps the newest of them.
local function record_attempt(attempts, number, node, started, now, outcome, err, keep)
  redis.call('RPUSH', attempts, cjson.encode({
    number = tonumber(number), node = node, started = tonumber(started), finished = now,
    outcome = outcome, error = err }))
  redis.call('LTRIM', attempts, -keep, -1)
end

-- partition_of is the prefix of the keys of the partition to which a key of a task or schedule belongs.
local function partition_of(key, member)
  return string.match(string.sub(key, 1, #key - #member), '^(.*:)%a+:$')
end

-- look_at has the leader look at a schedule ("namespace:id") at that time. p is the prefix of the partition's keys.
local function look_at(p, schedule, at, wake)
  redis.call('ZADD', p .. 'ticks', int(at), schedule)
  if redis.call('ZRANGE', p .. 'ticks', 0, 0)[1] == schedule then
    redis.call('PUBLISH', wake, 'tick:' .. string.match(p, '{(%d+)}'))
  end
end

-- settle tells a schedule, if the task is one of its own, that the task has ended: the next one may have waited for
-- that, and too many failures in a row pause the schedule, which it answers with true.
local function settle(p, member, final, now, wake)
  local schedule, name = string.match(member, '^([^@]+)@(.+)$')
  if not schedule or redis.call('ZREM', p .. 'live:' .. schedule, name) == 0 then
    return
  end
  local key = p .. 'schedule:' .. schedule
  local limit, paused = unpack(redis.call('HMGET', key, 'breaker', 'paused'))
  if final == 'succeeded' then
    redis.call('HDEL', key, 'failures')
  elseif final == 'failed' then
    local failures = redis.call('HINCRBY', key, 'failures', 1)
    if limit and failures >= tonumber(limit) and not paused then
      redis.call('HSET', key, 'paused', int(now), 'note', 'paused by itself: ' .. int(failures) .. ' tasks in a row failed')
      redis.call('ZREM', p .. 'ticks', schedule)
      return true
    end
  end
  if not paused and redis.call('LLEN', p .. 'waiting:' .. schedule) > 0 and redis.call('ZCARD', p .. 'live:' .. schedule) == 0 then
    look_at(p, schedule, now, wake)
  end
end

-- stop_task ends a task that waits, and tells a running one to stop.
local function stop_task(p, member, retention, now, events, control, wake)
  local task = p .. 'task:' .. member
  local state, attempt, cancel, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'cancel', 'node', 'def'))
  if state == 'running' then
    if not cancel then
      redis.call('HSET', task, 'cancel', int(now))
      announce(events, 'cancelling', member, state, attempt, node, now, def, '')
    end
    redis.call('PUBLISH', control, member .. ':' .. attempt)
  elseif state == 'scheduled' or state == 'queued' then
    redis.call('HSET', task, 'state', 'cancelled', 'finished', int(now))
    redis.call('ZREM', p .. 'wheel', member)
    redis.call('ZREM', p .. 'queued', member)
    if attempt then
      redis.call('ZREM', p .. 'inflight', member .. ':' .. attempt)
    end
    redis.call('ZADD', p .. 'state:' .. string.match(member, '^[^:]+') .. ':cancelled', int(now), member)
    redis.call('ZADD', p .. 'expiry', int(now + tonumber(retention)), member)
    announce(events, 'cancelled', member, 'cancelled', attempt or '0', node, now, def, '')
    settle(p, member, 'cancelled', now, wake)
  end
end

-- record_tick writes into a schedule's ledger what became of a tick, over what was written of it before. task is 1 if
-- the tick has a task; late is in ms, nil to leave it as it was.
local function record_tick(p, schedule, tick, name, outcome, task, late, now, revision, reason)
  local ledger = p .. 'ledger:' .. schedule
  for _, old in ipairs(redis.call('ZRANGE', ledger, tick, tick, 'BYSCORE')) do
    local its, before = string.match(old, '^(%S+) %S+ %d (%S+) ')
    if its == name then
      redis.call('ZREM', ledger, old)
      late = late or tonumber(before)
    end
  end
  redis.call('ZADD', ledger, tick, name .. ' ' .. outcome .. ' ' .. task .. ' ' .. int(late or 0) .. ' ' .. int(now) .. ' ' ..
    revision .. ' ' .. reason)
end

-- trim forgets the oldest records of a ledger: those before horizon, and those beyond keep. The schedule remembers up to
-- when, or up to known, whichever is later.
local function trim(schedule, ledger, keep, horizon, known)
  redis.call('ZREMRANGEBYSCORE', ledger, '-inf', '(' .. horizon)
  local surplus = redis.call('ZCARD', ledger) - keep
  if surplus > 0 then
    known = math.max(known, tonumber(redis.call('ZRANGE', ledger, surplus - 1, surplus - 1, 'WITHSCORES')[2]))
    redis.call('ZREMRANGEBYRANK', ledger, 0, surplus - 1)
  end
  if known > tonumber(redis.call('HGET', schedule, 'known') or '0') then
    redis.call('HSET', schedule, 'known', int(known))
  end
end

-- launch creates the task of a tick and answers true, unless it is there already.
local function launch(p, member, def, due, now, events)
  local task = p .. 'task:' .. member
  if redis.call('EXISTS', task) == 1 then
    return false
  end
  redis.call('HSET', task, 'state', 'scheduled', 'created', int(now), 'due', int(due), 'def', def)
  redis.call('ZADD', p .. 'wheel', int(due), member)
  announce(events, 'scheduled', member, 'scheduled', '0', '', now, def, ',"due":' .. int(due))
  return true
end

-- replace clears the way for a tick: what waits gives it up, what has not ended is cancelled. It answers how many ticks
-- waited, not counting what was run by hand. s is a table with p, schedule, revision, retention, now, events, control and
-- wake, and perhaps decided, to which it adds names and outcomes.
local function replace(s, name)
  local waiting, live = s.p .. 'waiting:' .. s.schedule, s.p .. 'live:' .. s.schedule
  local waited = redis.call('LRANGE', waiting, 0, -1)
  local ticks = 0
  redis.call('DEL', waiting)
  for _, entry in ipairs(waited) do
    local tick, its = string.match(entry, '^(%d+) (%S+)')
    ticks = ticks + (string.sub(its, -7) == '-manual' and 0 or 1)
    record_tick(s.p, s.schedule, tick, its, 'replaced', 0, nil, s.now, s.revision, 'gave way to ' .. name)
    if s.decided then
      s.decided[#s.decided + 1], s.decided[#s.decided + 2] = its, 'replaced'
    end
  end
  local running = redis.call('ZRANGE', live, 0, -1, 'WITHSCORES')
  for i = 1, #running, 2 do
    if not redis.call('HGET', s.p .. 'task:' .. s.schedule .. '@' .. running[i], 'cancel') then
      record_tick(s.p, s.schedule, running[i + 1], running[i], 'replaced', 1, nil, s.now, s.revision, 'cancelled for ' .. name)
      if s.decided then
        s.decided[#s.decided + 1], s.decided[#s.decided + 2] = running[i], 'replaced'
      end
    end
    stop_task(s.p, s.schedule .. '@' .. running[i], s.retention, s.now, s.events, s.control, s.wake)
  end
  return ticks
end

-- admit applies the overlap policy to a tick: its task is created, or it waits, or it does not run. It answers the
-- outcome, the reason, and by how many fewer ticks the schedule will have run because this one replaced them. s is a
-- table with overlap, bound (how many may wait), def, what replace needs, and paused, if what waits stands still.
local function admit(s, tick, name, due)
  local live, waiting = s.p .. 'live:' .. s.schedule, s.p .. 'waiting:' .. s.schedule
  local fewer, running, ahead = 0, redis.call('ZCARD', live), s.paused and 0 or redis.call('LLEN', waiting)
  local busy = running + ahead > 0 -- what waits goes first, though nothing may run at this very moment
  if busy and s.overlap == 'replace' then
    fewer = replace(s, name)
    busy = redis.call('ZCARD', live) > 0
  end
  if s.overlap == 'queue' and ahead >= s.bound then
    return 'skipped_overlap', int(ahead) .. ' ticks wait already', 0
  end
  if running >= 10000 then -- schedule.LiveLimit
    return 'skipped_overlap', int(running) .. ' tasks have not ended', 0
  end
  if busy and s.overlap == 'skip' then
    local before = redis.call('ZRANGE', live, 0, 0)[1]
    return 'skipped_overlap', before and 'the task of ' .. before .. ' has not ended' or 'another tick waits', 0
  end
  if busy and s.overlap ~= 'allow' then
    redis.call('RPUSH', waiting, tick .. ' ' .. name)
    return 'queued', 'waits for the end of the task before it', fewer
  end
  if not launch(s.p, s.schedule .. '@' .. name, s.def, due, s.now, s.events) then
    return 'fired', 'its task was there already', fewer
  end
  redis.call('ZADD', live, tick, name)
  return 'fired', '', fewer
end
