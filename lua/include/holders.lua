-- holders: frees slots of limits. The state of a task says of which limits it holds a slot: see limits_in.
-- needs: arg wake
-- includes: state, damage, holder
-- finally: write_freed()

local REMOVED_AT_ONCE = 1000
local freed, freed_limits = {}, {} -- holders that hold no slot any more, by limit; and the limits

-- limits_of_fields returns the limits that the fields of a state have; nil for none.
local function limits_of_fields(fields)
  return fields.max_attempts and string.match(fields.max_attempts, '%+(.*)')
end

-- free_slots has a task hold no slot any more. limits are those in its state while it was live, nil for none.
local function free_slots(member, limits)
  if not limits then
    return
  end
  for limit in string.gmatch(limits, LIMIT) do
    if not freed[limit] then
      freed[limit], freed_limits[#freed_limits + 1] = {}, limit
    end
    for _, holder in ipairs(holders_of(member, limits)) do
      table.insert(freed[limit], holder)
    end
  end
end

local function remove_holders(limit)
  local list = freed[limit]
  for i = 1, #list, REMOVED_AT_ONCE do
    redis.call('SREM', holds_key(limit), unpack(list, i, math.min(i + REMOVED_AT_ONCE - 1, #list)))
  end
end

-- write_freed removes the tasks, and tells the leader, for which others may wait.
local function write_freed()
  local words = {}
  for i, limit in ipairs(freed_limits) do
    try(remove_holders, limit)
    words[i] = i <= FREED_SAID and limit .. '=' .. #freed[limit] or nil
  end
  if #words > 0 then
    redis.call('PUBLISH', wake, 'freed ' .. table.concat(words, ' '))
  end
end
