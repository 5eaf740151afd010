-- standing: what tasks with a key do.
-- includes: state, place, once

-- standing_of returns what the task of a key does that has that name: wait for its first attempt, stay in its queue or
-- between attempts, or run; nil if it has ended, cannot be read, or is not there.
local function standing_of(key, name)
  local member = name and key .. '@k' .. name
  local record = member and redis.call('HGET', defs_key, member)
  local text = record and redis.call('HGET', states_key, member)
  if not record or text and not is_state(text) or not text and not due_unclaimed(member, record) then
    return nil
  end
  local state, attempt = string.match(text or 'scheduled 0', '^%s*(%a+)%s+(%d+)')
  if state == 'scheduled' then
    return attempt == '0' and 'wait' or 'stay'
  end
  return state == 'running' and 'run' or state == 'queued' and 'stay' or nil
end
