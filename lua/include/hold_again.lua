-- hold_again: has a task hold its slots that Redis has lost, also beyond the cap.
-- includes: nothing

-- hold_again has a task hold a slot of each limit. limits are those in its state, nil for none.
local function hold_again(member, limits)
  for limit in string.gmatch(limits or '', '[^,]+') do
    redis.call('SADD', holds_key(limit), member)
  end
end
