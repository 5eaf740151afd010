-- asker: who cancelled a task, which is kept as its error.
-- includes: nothing

-- note_asker keeps who cancelled a task, as its error; by is '' if nobody knows.
local function note_asker(member, what, by)
  if by ~= '' then
    redis.call('HSET', errors_key, member, what .. ' by ' .. by)
  end
end

-- with_asker returns the reason why an attempt stopped with who asked for it, as note_asker keeps it.
local function with_asker(member, state, reason)
  if state ~= 'cancelled' then
    return reason
  end
  local asked = redis.call('HGET', errors_key, member) or ''
  return string.find(asked, '^asked to stop by ') and asked .. (reason ~= '' and ': ' .. reason or '') or reason
end
