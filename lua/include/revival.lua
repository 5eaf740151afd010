-- revival: makes the newest revision that is left of a schedule the present one.
-- needs: key schedules
-- includes: clock, number, chunk, damage

-- read_entries returns what the ledger of a schedule has.
local function read_entries(member)
  return redis.call('ZRANGE', ledger_key(member), 0, -1, 'WITHSCORES')
end

-- is_run returns whether a record counts as a run of the schedule: not one by hand.
local function is_run(name, outcome, has_task)
  return string.sub(name, -#MANUAL_SUFFIX) ~= MANUAL_SUFFIX and
    (outcome == 'fired' or outcome == 'queued' or outcome == 'replaced' and has_task == '1')
end

-- read_ledger returns how many ticks the ledger of a schedule has, how many of them are runs, a time (ms) before which
-- it has none, and a tick (ms) of a revision; nil if it has none of that.
local function read_ledger(member, revision)
  local total, runs, tick, entries = 0, 0, nil, try(read_entries, member) or {}
  for i = 1, #entries, 2 do
    local of, count = string.match(entries[i], CHUNK)
    local name, outcome, has_task, decided_by = string.match(entries[i], '^(%S+) (%S+) (%d) %S+ %d+ (%d+) ')
    count = tonumber(count or 1)
    total = total + count
    runs = runs + (of and count or name and is_run(name, outcome, has_task) and 1 or 0)
    if (of or name and string.find(name, '^[%dT.]+Z$') and decided_by) == revision then
      tick = tonumber(entries[i + 1])
    end
  end
  return total, runs, tonumber(entries[2] or now), tick
end

-- interval_of returns the interval (ms) of a definition whose ticks are counted from the creation of the schedule; nil
-- if there is none, or more than one.
local function interval_of(def)
  local definition, interval = cjson.decode(def), nil
  for _, rule in ipairs(definition.start and {} or definition.rules or {}) do
    if rule.every and interval then
      return nil
    end
    interval = rule.every or interval
  end
  return interval
end

-- origin_of returns when a schedule was created, and whether that is known. If it is not, it is a time from which
-- intervals have the ticks that they had, as far as the ledger tells these.
local function origin_of(newest, oldest, tick)
  local from, interval = tonumber(oldest.from), interval_of(newest.def)
  if tonumber(oldest.revision) == 1 or not (interval and tick) then
    return from, tonumber(oldest.revision) == 1
  end
  return tick - math.floor((tick - from) / interval) * interval, false
end

-- revive makes a revision the present one, which decides ticks from now on. lost is how many revisions came after it.
-- The present one gets a number after theirs: numbers that are missing tell that nobody knows the ticks of that time.
local function revive(member, newest, oldest, lost)
  local records, runs, since, tick = read_ledger(member, tostring(newest.revision))
  local created, known = origin_of(newest, oldest, tick)
  local note = 'a later definition was lost; this is revision ' .. newest.revision ..
    ': check it before you resume. It counts ' .. int(runs) ..
    ' runs, those in its ledger; it is not known whether it had ended' .. (known and '' or ', and when it was created')
  redis.call('HSET', schedule_key(member), 'revision', int(newest.revision + lost + 1), 'def', newest.def,
    'task', newest.task, 'created', int(created), 'from', int(now), 'cursor', int(now),
    'runs', int(runs), 'records', int(records), 'oldest', int(since),
    'paused', int(now), 'note', note)
  redis.call('ZADD', schedules, 0, member)
  redis.call('ZREM', ticks_key, member)
end
