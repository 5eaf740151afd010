-- lost: schedules that have lost their hash, and so their definition, as after an eviction, or whose hash cannot be
-- read.
-- needs: key schedules
-- includes: clock, number, findings, damage, revival, may_run

local NEED_DEFINITION = { 'schedule-not-looked-at', 'schedule-drift' } -- checks

-- places_of returns where something is left of a schedule that has no hash, whether that shows that it existed, and
-- whether it may run. The script that deletes a schedule deletes all of it.
local function places_of(member)
  local places, existed, running = {}, false, may_run(member)
  local keys = { history_key(member), ledger_key(member), waiting_key(member) }
  keys[4] = not running and live_key(member) or nil
  for i, key in ipairs(keys) do
    if redis.call('EXISTS', key) == 1 then
      places[#places + 1], existed = key, existed or i <= 2
    end
  end
  for i, set in ipairs({ schedules, ticks_key }) do
    if redis.call('ZSCORE', set, member) then
      places[#places + 1], existed = set, existed or i == 1
    end
  end
  return places, existed, running
end

-- decode_entry returns an entry of a history; nil if it lacks something.
local function decode_entry(text)
  local entry = cjson.decode(text)
  local definition = type(entry.def) == 'string' and cjson.decode(entry.def)
  local whole = type(definition) == 'table' and type(entry.task) == 'string' and
    tonumber(entry.revision) and tonumber(entry.from)
  return whole and entry or nil
end

-- entries_of returns the texts of a history, newest first.
local function entries_of(member)
  return redis.call('LRANGE', history_key(member), 0, -1)
end

-- ends_of returns the newest and the oldest entry of a history that can be read, and how many come before the newest
-- one; nil if there are none. damaged: the history has the wrong type.
local function ends_of(member)
  local newest, oldest, before = nil, nil, 0
  local entries = try(entries_of, member)
  for i, text in ipairs(entries or {}) do
    local readable, entry = pcall(decode_entry, text)
    oldest = readable and entry or oldest
    newest, before = newest or oldest, newest and before or i - 1
  end
  return newest, oldest, before, not entries
end

-- find_lost finds what is left of a schedule that has no hash. It never deletes a history or a ledger.
local function find_lost(member)
  local places, existed, running = places_of(member)
  local newest, oldest, before, damaged = ends_of(member)
  local words = 'left in ' .. table.concat(places, ', ')
  if newest then
    words = 'has lost its definition, and revision ' .. newest.revision .. ' is ' .. words ..
      '; what nobody knows any more: later revisions, whether it had ended, and runs that its ledger does not have'
    if report(member, 'schedule-lost', words) then
      revive(member, newest, oldest, before + 1)
    else
      pass_over(member, 'has lost its definition', NEED_DEFINITION)
    end
  elseif existed then
    words = 'cannot be read: its definition is lost, and so is each earlier one; it is ' .. words
    report_only(member, 'schedule-unreadable', words)
    pass_over(member, 'has lost its definition', NEED_DEFINITION)
    pass_over(member, 'has a history of the wrong type', damaged and { 'schedule-lost' } or {})
  elseif #places > 0 and report(member, 'schedule-leftovers', 'does not exist, and is ' .. words) then
    redis.call('UNLINK', waiting_key(member))
    if not running then
      redis.call('UNLINK', live_key(member))
    end
    redis.call('ZREM', ticks_key, member)
  end
end
