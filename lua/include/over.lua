-- over: which live tasks of a schedule are over.
-- needs: arg member
-- includes: state

-- is_over returns in what way a live task is over: it has ended, or does not exist, as what somebody deleted by hand or Redis has lost; nil if it
-- is not over.
local function is_over(name)
  local tick_member = member .. '@' .. name
  if end_of(redis.call('HGET', states_key(), tick_member) or '') then
    return 'has ended'
  elseif redis.call('HEXISTS', defs_key(), tick_member) == 0 then
    return 'does not exist'
  end
end
