-- traces: what is left of tasks that have lost their definition, and what to do about it.
-- includes: findings, listings, remains, aside

local LAST = { -- the last field that a state must have
  scheduled = 'attempt', queued = 'queued', running = 'run',
  succeeded = 'finished', failed = 'finished', cancelled = 'finished',
}

-- check_of returns which check finds what is left of a task without a definition, by its state or, without one, by
-- where it is listed: the task is lost unless one of these says that it had ended.
local function check_of(text, listed)
  local ended = LAST[string.match(text or '', '^%a*')] == 'finished'
  for set in pairs(listed) do
    if set ~= expiry_key and not string.find(set, ':state:', 1, true) then
      return 'task-lost' -- whatever else says that it had ended
    end
    ended = ended or not text
  end
  return ended and 'task-leftovers' or 'task-lost'
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
  if #places == 0 or redis.call('ZSCORE', unconverted_key, member) then
    return
  end
  local check = check_of(text, listed)
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
