-- hold_again: has a task hold its slots that Redis has lost, also beyond the cap.
-- includes: holder

-- hold_again has a task hold its slots of each limit. limits are those in its state, nil for none.
local function hold_again(member, limits)
  for limit in string.gmatch(limits or '', LIMIT) do
    redis.call('SADD', holds_key(limit), unpack(holders_of(member, limits)))
  end
end
