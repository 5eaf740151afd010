-- over: which live tasks of a schedule are over.
-- includes: state

-- is_over returns in what way a live task of a schedule is over: it has ended, or does not exist, as what somebody
-- deleted by hand or Redis has lost; nil if it is not over.
local function is_over(member, name)
  local tick_member = member .. '@' .. name
  if end_of(redis.call('HGET', states_key, tick_member) or '') then
    return 'has ended'
  elseif redis.call('HEXISTS', defs_key, tick_member) == 0 then
    return 'does not exist'
  end
end

-- first_live returns the name of the first live task of a schedule that is not over. It looks at the tasks from the
-- first one to the one at the index last, from 0; -1 means all. It returns nil if there is none.
local function first_live(member, last)
  for _, name in ipairs(redis.call('ZRANGE', live_key(member), 0, last)) do
    if not is_over(member, name) then
      return name
    end
  end
end
