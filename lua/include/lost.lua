-- lost: schedules that have lost their hash, and so their definition, as after an eviction.
-- needs: key schedules
-- includes: clock, number, findings, chunk

-- places_of returns where something is left of a schedule that has no hash, and whether that shows that it existed: the
-- script that deletes a schedule deletes all of it.
local function places_of(member)
  local places, existed = {}, false
  for i, key in ipairs({ history_key(member), ledger_key(member), live_key(member), waiting_key(member) }) do
    if redis.call('EXISTS', key) == 1 then
      places[#places + 1], existed = key, existed or i <= 2
    end
  end
  for i, set in ipairs({ schedules, ticks_key() }) do
    if redis.call('ZSCORE', set, member) then
      places[#places + 1], existed = set, existed or i == 1
    end
  end
  return places, existed
end

-- count_ledger returns how many ticks the ledger of a schedule has, and a time (ms) before which it has none.
local function count_ledger(member)
  local total = 0
  for _, entry in ipairs(redis.call('ZRANGE', ledger_key(member), 0, -1)) do
    local _, count = string.match(entry, CHUNK)
    total = total + tonumber(count or 1)
  end
  return total, tonumber(redis.call('ZRANGE', ledger_key(member), 0, 0, 'WITHSCORES')[2] or now)
end

-- bring_back makes the newest revision that is left the present one, which decides ticks from now on. It gets the
-- number of the lost one, as a history has no gaps.
local function bring_back(member, newest, oldest)
  local records, since = count_ledger(member)
  redis.call('HSET', schedule_key(member), 'revision', int(newest.revision + 1), 'def', newest.def, 'task', newest.task,
    'created', oldest.from, 'from', int(now), 'cursor', int(now), 'records', records, 'oldest', int(since),
    'paused', int(now), 'note',
    'a later definition was lost; this is that of revision ' .. newest.revision .. ': check it before you resume')
  redis.call('ZADD', schedules, 0, member)
  redis.call('ZREM', ticks_key(), member)
end

-- decoded returns an entry of a history; false if there is none, or it cannot be read.
local function decoded(member, index)
  local ok, entry = pcall(cjson.decode, redis.call('LINDEX', history_key(member), index) or '')
  local whole = ok and type(entry) == 'table' and tonumber(entry.revision) and entry.from and entry.def and entry.task
  return whole and entry
end

-- find_lost finds what is left of a schedule that has no hash. What may be the last trace of a definition stays.
local function find_lost(member)
  local places, existed = places_of(member)
  local words = 'left in ' .. table.concat(places, ', ')
  local newest, oldest = decoded(member, 0), decoded(member, -1)
  if newest and oldest then
    words = 'has lost its definition, and revision ' .. newest.revision .. ' is ' .. words
    if report(member, 'schedule-lost', words) then
      bring_back(member, newest, oldest)
    end
  elseif existed then
    words = 'cannot be read: its definition is lost, and so is each earlier one; it is ' .. words
    report(member, 'schedule-unreadable', words)
  elseif #places > 0 and report(member, 'schedule-leftovers', 'does not exist, and is ' .. words) then
    redis.call('UNLINK', live_key(member), waiting_key(member))
    redis.call('ZREM', ticks_key(), member)
  end
end
