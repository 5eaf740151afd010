-- ledger: the record of every tick of a schedule. member is the schedule's "namespace:id".
-- needs: arg member
-- includes: clock, number

-- recorded lists what this run of the script recorded: name, outcome, name, outcome and so on.
local recorded = {}

-- record_tick records the outcome of a tick (ms), in place of the record of the same name. has_task is 1 if the tick has a
-- task, else 0; late is in ms, nil to keep the lateness of the earlier record.
local function record_tick(revision, tick, name, outcome, has_task, late, reason)
  local ledger = ledger_key(member)
  for _, entry in ipairs(redis.call('ZRANGE', ledger, int(tick), int(tick), 'BYSCORE')) do
    local entry_name, late_before = string.match(entry, '^(%S+) %S+ %d (%S+) ')
    if entry_name == name then
      redis.call('ZREM', ledger, entry)
      late = late or tonumber(late_before)
    end
  end
  redis.call('ZADD', ledger, int(tick), name .. ' ' .. outcome .. ' ' .. has_task .. ' ' .. int(late or 0) .. ' ' ..
    int(now) .. ' ' .. revision .. ' ' .. reason)
  recorded[#recorded + 1] = name
  recorded[#recorded + 1] = outcome
end

-- find_record returns the record of the tick of that time (ms) and name: a table of the texts outcome, has_task, decided
-- (ms), revision, reason; nil if there is no record.
local function find_record(tick, name)
  for _, entry in ipairs(redis.call('ZRANGE', ledger_key(member), int(tick), int(tick), 'BYSCORE')) do
    local entry_name, outcome, has_task, decided, revision, reason =
      string.match(entry, '^(%S+) (%S+) (%d) %S+ (%d+) (%d+) (.*)$')
    if entry_name == name then
      return { outcome = outcome, has_task = has_task, decided = decided, revision = revision, reason = reason }
    end
  end
end

-- trim_ledger deletes records beyond the horizon and beyond the limit. The schedule's field known becomes the tick (ms) up
-- to which records are missing: the newest one beyond the limit, or forgotten if that is later.
local function trim_ledger(forgotten)
  local ledger = ledger_key(member)
  redis.call('ZREMRANGEBYSCORE', ledger, '-inf', '(' .. int(now - LEDGER_HORIZON))
  local surplus = redis.call('ZCARD', ledger) - LEDGER_LIMIT
  if surplus > 0 then
    forgotten = math.max(forgotten, tonumber(redis.call('ZRANGE', ledger, surplus - 1, surplus - 1, 'WITHSCORES')[2]))
    redis.call('ZREMRANGEBYRANK', ledger, 0, surplus - 1)
  end
  if forgotten > tonumber(redis.call('HGET', schedule_key(member), 'known') or '0') then
    redis.call('HSET', schedule_key(member), 'known', int(forgotten))
  end
end

