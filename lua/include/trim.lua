-- trim: the limits of the ledger of a schedule. member is the schedule's "namespace:id".
-- Fields of the schedule: records is how many ticks the ledger has, oldest a time (ms) before which it has none, known the
-- tick up to which it lacks records.
-- needs: arg member
-- includes: clock, number, chunk

local size, oldest, known_from -- the fields records, oldest and known, once load_size has read them
local size_before, oldest_before

-- load_size reads the three fields, once. A ledger without records is of an older version and has no chunks.
local function load_size()
  if size then
    return
  end
  size, oldest, known_from = unpack(redis.call('HMGET', schedule_key(member), 'records', 'oldest', 'known'))
  size_before, oldest_before = tonumber(size or -1), tonumber(oldest or -1)
  if not tonumber(size) then
    size = redis.call('ZCARD', ledger_key(member))
    oldest = redis.call('ZRANGE', ledger_key(member), 0, 0, 'WITHSCORES')[2]
  end
  size, oldest, known_from = tonumber(size), tonumber(oldest or '') or now, tonumber(known_from or '') or 0
end

-- drop_members deletes the oldest members of which all ticks are before the horizon (ms) or surplus. Returns forgotten or, if
-- that is later, the newest tick within the horizon that it deleted, and the oldest member that is left, with its score.
local function drop_members(horizon, forgotten)
  local look, found, i = size - LEDGER_LIMIT > 1 and 99 or 0, nil, nil
  repeat
    found, i, look = redis.call('ZRANGE', ledger_key(member), 0, look, 'WITHSCORES'), 1, 99
    while found[i] do
      local _, count, last = string.match(found[i], CHUNK)
      last, count = tonumber(last or found[i + 1]), tonumber(count or 1)
      if last >= horizon and size - LEDGER_LIMIT < count then
        break
      end
      size, i = size - count, i + 2
      forgotten = last >= horizon and math.max(forgotten, last) or forgotten
    end
    if i > 1 then
      redis.call('ZREMRANGEBYRANK', ledger_key(member), 0, (i - 3) / 2)
    end
  until found[i] or not found[1]
  return forgotten, found[i], tonumber(found[i + 1])
end

-- drop_ticks deletes the oldest records: those before the horizon (ms), and those beyond the limit. Returns forgotten or, if
-- that is later, the newest tick within the horizon that it deleted.
local function drop_ticks(horizon, forgotten)
  local member_before, first, cut, delta
  forgotten, member_before, first = drop_members(horizon, forgotten)
  cut = member_before
  while first and (first < horizon or size > LEDGER_LIMIT) do
    forgotten = first >= horizon and math.max(forgotten, first) or forgotten
    cut, delta = cut_chunk(cut)
    first, size = first + delta, size - 1
  end
  if cut ~= member_before then
    redis.call('ZREM', ledger_key(member), member_before)
    redis.call('ZADD', ledger_key(member), int(first), cut)
  end
  oldest, size = first or now, first and size or 0
  return forgotten
end

-- trim_ledger deletes records beyond the horizon and beyond the limit. The schedule's field known becomes the tick (ms) up
-- to which records are missing: the newest one beyond the limit, or forgotten if that is later.
local function trim_ledger(forgotten)
  load_size()
  if size > LEDGER_LIMIT or oldest < now - LEDGER_HORIZON then
    forgotten = drop_ticks(now - LEDGER_HORIZON, forgotten)
  end
  if forgotten > known_from then
    redis.call('HSET', schedule_key(member), 'records', size, 'oldest', int(oldest), 'known', int(forgotten))
  elseif oldest ~= oldest_before then
    redis.call('HSET', schedule_key(member), 'records', size, 'oldest', int(oldest))
  elseif size ~= size_before then
    redis.call('HSET', schedule_key(member), 'records', size)
  end
end
