-- asked: finds what an earlier request with the same key has done. member is the schedule's "namespace:id".
-- The reasons of the records that a request makes end with its key.
-- needs: arg member
-- includes: clock, number, record

-- has_key returns whether a reason is that of a request with that key, as reasons end with it.
local function has_key(reason, key)
  return key ~= '' and string.sub(reason, -#key) == key
end

-- find_asked returns the record, as find_record does, the name and the time (ms) of the newest run by hand that a
-- request with that key asked for; nil if there was none for a while.
local function find_asked(key)
  local records = redis.call('ZRANGE', ledger_key(member), int(now), int(now - ASKED_FOR), 'BYSCORE', 'REV',
    'LIMIT', 0, ASKED_LOOK, 'WITHSCORES')
  for i = 1, #records, 2 do
    local name, outcome, has_task, decided, revision, reason =
      string.match(records[i], '^(%S+) (%S+) (%d) %S+ (%d+) (%d+) (.*)$')
    if name and not in_chunk(name) and has_key(reason, key) then
      local record = { outcome = outcome, has_task = has_task, decided = decided, revision = revision, reason = reason }
      return record, name, tonumber(records[i + 1])
    end
  end
end
