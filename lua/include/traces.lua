-- traces: what is left of tasks that have lost their state or their definition, and what to do about it.
-- includes: clock, number, state, findings, listings, remains, aside

local LAST = { -- the last field that a state must have
  scheduled = 'attempt', queued = 'queued', running = 'run', succeeded = 'finished', failed = 'finished', cancelled = 'finished',
}

-- begun_or_ended returns the fields of a state for a task that has none, though the task is listed as one that runs or has
-- ended, and nowhere as one that waits: it must not run again. nil for others: a task that was never claimed has no state.
local function begun_or_ended(member, record, listed)
  for _, set in ipairs(waiting_sets(record)) do
    if listed[set] then
      return nil
    end
  end
  local fields = { attempt = '1', queued = int(now), started = int(now), run = '#', finished = int(now) }
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    local ended = listed[index_key(string.match(member, '^[^:]*'), state)]
    if ended then
      fields.state, fields.outcome, fields.finished = state, state, int(ended)
      return fields
    end
  end
  if listed[expiry_key()] or listed[running_key()] or listed[held_key()] then
    fields.state, fields.outcome = 'failed', 'lost'
    return fields
  end
end

-- bring_back finds that a task lacks the state with those fields. Returns them if it has that state now.
local function bring_back(member, fields)
  if not report(member, 'state-lost', 'has no state, and is listed as one that runs or has ended') then
    return nil
  end
  redis.call('HSET', states_key(), member, format_state(fields))
  if fields.outcome == 'lost' then
    redis.call('HSET', errors_key(), member, 'its state was lost, and it may have run: retry it if it may run twice')
  end
  return fields
end

-- check_of returns which check finds what is left of a task without a definition, by its state and where it is listed: the
-- task is lost if it had not ended.
local function check_of(text, listed, places)
  local waits = LAST[string.match(text or '', '^%a*')] ~= 'finished' and text
  for _, set in ipairs(places) do
    waits = waits or listed[set] and set ~= expiry_key() and not string.find(set, ':state:', 1, true)
  end
  return waits and 'task-lost' or 'task-leftovers'
end

-- clear finds what is left of a task that does not exist, unless it waits in an older layout.
local function clear(member, text, listed)
  local places, hashes, keys = {}, remains_of(member)
  for set in pairs(listed) do
    places[#places + 1] = set
  end
  for _, more in ipairs({ hashes, keys }) do
    for _, key in ipairs(more) do
      places[#places + 1] = key
    end
  end
  table.sort(places) -- so that equal findings have equal words
  if #places == 0 or redis.call('ZSCORE', unconverted_key(), member) then
    return
  end
  local check = check_of(text, listed, places)
  if not report(member, check, 'does not exist, and is left in ' .. table.concat(places, ', ')) then
    return
  elseif check == 'task-lost' then
    return put_aside(member, listed)
  end
  for set in pairs(listed) do
    redis.call('ZREM', set, member)
  end
  for _, hash in ipairs(hashes) do
    redis.call('HDEL', hash, member)
  end
  for _, key in ipairs(keys) do
    redis.call('UNLINK', key)
  end
end
