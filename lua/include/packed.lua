-- packed: the chunks in the ledger of a schedule. member is the schedule's "namespace:id".
-- needs: arg member
-- includes: number, chunk, record

-- append_on_time appends a tick that fired on time to the newest chunk, or begins a chunk. Returns false, without a
-- change, if the ledger has a record of that time or a later one.
local function append_on_time(revision, tick, late)
  local ledger = ledger_key(member)
  local newest, first = unpack(redis.call('ZPOPMAX', ledger))
  if not newest then
    redis.call('ZADD', ledger, int(tick), new_chunk(revision, tick, late))
    return true
  end
  local of, count, last, step, ticks = string.match(newest, CHUNK)
  if tick <= tonumber(last or first) then
    redis.call('ZADD', ledger, first, newest)
    return false
  end
  if of == revision and tonumber(count) < CHUNK_LIMIT then
    redis.call('ZADD', ledger, first, extend_chunk(of, count, last, step, ticks, tick, late))
  else
    redis.call('ZADD', ledger, first, newest, int(tick), new_chunk(revision, tick, late))
  end
  return true
end

-- cut_first removes the first tick of a chunk, and returns its lateness. It is much faster than splitting the chunk, and a script
-- may cut thousands of ticks in their order.
local function cut_first(chunk, first)
  redis.call('ZREM', ledger_key(member), chunk)
  local _, count, _, _, ticks = string.match(chunk, CHUNK)
  if count ~= '1' then
    local cut, delta = cut_chunk(chunk)
    redis.call('ZADD', ledger_key(member), int(first + delta), cut)
  end
  return tonumber((string.match(ticks, '^%d+')))
end

-- make_room splits a chunk, whose first tick is first, around a tick (ms), so that a record of that name can stand beside
-- it. Returns the lateness that the chunk has for the name, which it leaves out; nil if it has none.
local function make_room(chunk, first, tick, name)
  if tick == first and in_chunk(name) then
    return cut_first(chunk, first)
  end
  local before, after, late = {}, {}, nil
  for _, record in ipairs(unpack_ticks(chunk, first)) do
    if record.tick == tick and in_chunk(name) then
      late = record.late
    else
      local side = record.tick < tick and before or after
      side[#side + 1] = record
    end
  end
  local ledger, revision = ledger_key(member), string.match(chunk, CHUNK)
  redis.call('ZREM', ledger, chunk)
  for _, side in ipairs({ before, after }) do
    if side[1] then
      redis.call('ZADD', ledger, int(side[1].tick), pack_ticks(revision, side))
    end
  end
  return late
end
