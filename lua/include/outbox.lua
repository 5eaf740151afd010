-- outbox: what follows the ends of tasks. An entry of the outbox is `end <member> <attempt> <state>`, by the time of
-- the end.
-- needs: arg wake
-- includes: number, wakes

local told = false -- whether the leader was woken

-- is_marked returns whether a state has the mark.
local function is_marked(text)
  return string.find(text, '>', 1, true) ~= nil and string.find(text, '^%a+ %d+ %d+>') ~= nil
end

-- owe_follow_up puts an end into the outbox, at that time (ms), unless it is there, and wakes the leader.
local function owe_follow_up(member, attempt, state, at)
  redis.call('ZADD', outbox_key, 'NX', int(at), 'end ' .. member .. ' ' .. attempt .. ' ' .. state)
  if not told then
    told = true
    wake_leader('follow')
  end
end
