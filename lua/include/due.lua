-- due: when tasks are due.
-- includes: definition, moved, place

-- due_at returns when a task is due, as text; nil or false if it is not scheduled, or does not exist. score is that of
-- the wheel, if it is there.
local function due_at(member, record, state, score)
  if score or not record then
    return score and away.due(score)
  elseif not state then
    return due_unclaimed(member, record)
  end
  return string.sub(state, 1, 9) == 'scheduled' and due_of(member, record)
end
