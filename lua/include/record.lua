-- record: finds the record of a tick in the ledger of a schedule, which is named by its "namespace:id".
-- A member of the ledger is either a chunk, by its first tick, or the record of one tick. No record lies between the ticks of
-- a chunk; only that of a run by hand may have the time of its first tick.
-- includes: number, chunk

-- nearest_member returns the newest member that begins at a tick (ms) or before it, when that is, and whether it is a chunk
-- that does not end before it. All of them are nil if there is no such member.
local function nearest_member(schedule_ref, tick)
  local nearest, first = unpack(redis.call('ZRANGE', ledger_key(schedule_ref), int(tick), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES'))
  if nearest then
    local _, _, last = string.match(nearest, CHUNK)
    return nearest, tonumber(first), last and tick <= tonumber(last)
  end
end

-- in_chunk returns whether the record of that name may be in a chunk: that of a tick may, that of a run by hand may not.
local function in_chunk(name)
  return string.sub(name, -1) == 'Z'
end

-- find_record returns the record of the tick of that time (ms) and name: a table of the texts outcome, has_task, decided
-- (ms), revision, reason; nil if there is no record.
local function find_record(schedule_ref, tick, name)
  local nearest, first, around = nearest_member(schedule_ref, tick)
  for _, record in ipairs(around and in_chunk(name) and unpack_ticks(nearest, first) or {}) do
    if record.tick == tick then
      return { outcome = 'fired', has_task = '1', decided = int(tick + record.late), revision = string.match(nearest, CHUNK), reason = '' }
    end
  end
  for _, entry in ipairs(first == tick and redis.call('ZRANGE', ledger_key(schedule_ref), int(tick), int(tick), 'BYSCORE') or {}) do
    local entry_name, outcome, has_task, decided, revision, reason =
      string.match(entry, '^(%S+) (%S+) (%d) %S+ (%d+) (%d+) (.*)$')
    if entry_name == name then
      return { outcome = outcome, has_task = has_task, decided = decided, revision = revision, reason = reason }
    end
  end
end

-- asked_for returns who asked for a run by hand, as its record has it, to be added to the reason of the next record of
-- that run; '' if nobody knows.
local function asked_for(schedule_ref, tick, name)
  local by_hand = string.sub(name, -#MANUAL_SUFFIX) == MANUAL_SUFFIX
  local record = by_hand and find_record(schedule_ref, tonumber(tick), name)
  local asked = record and string.match(record.reason, 'asked for by .*$')
  return asked and ', ' .. asked or ''
end
