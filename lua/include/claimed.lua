-- claimed: the states of tasks that are claimed.
-- includes: nothing

-- has_follow_up returns whether the leader may have to act on the end of the task with that head: it has a follow-up,
-- or a key, and another task may wait for its end. A label can look like these.
local function has_follow_up(head)
  if not string.find(head, ',"on', 1, true) then
    return false
  end
  return (string.find(head, ',"on_end":', 1, true) or string.find(head, ',"once":', 1, true)) ~= nil
end

-- claimed_state returns the state of a scheduled task, nil if it was never claimed, as it is when it is queued, and the
-- number of the attempt. head is the first line of its definition, limits are those of which it holds a slot, and node
-- is the one to which it goes, nil for none. Times are text.
local function claimed_state(text, due, at, head, limits, node)
  local mark = has_follow_up(head) and '>' or ''
  mark = mark .. (node and '@' .. node or '') .. (limits and '+' .. limits or '')
  if not text then
    return 'queued 1 0' .. mark .. ' 0 ' .. due .. ' ' .. at, 1
  end
  local attempt, max, first = string.match(text, '^scheduled (%d+) (%d+)%S* (%d+)')
  attempt = string.format('%.0f', (attempt or string.match(text, '^scheduled (%d+)') or 0) + 1)
  local kept = (max or '0') .. mark .. ' ' .. (first or '0')
  return 'queued ' .. attempt .. ' ' .. kept .. ' ' .. due .. ' ' .. at, tonumber(attempt)
end
