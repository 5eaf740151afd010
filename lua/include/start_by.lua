-- start_by: tasks that end if nobody has begun them some time after they were due.
-- includes: nothing

-- start_by_of returns how many ms after it was due a task may begin for the first time, from its definition with or
-- without the time of its creation; nil for no such bound. A payload, or a follow-up, can have the name of the field.
local function start_by_of(record)
  if not string.find(record, ',"start_by":', 1, true) then
    return nil
  end
  local head = string.match(record, '^[^\n]*')
  local own = string.sub(head, 1, (string.find(head, ',"on_end":', 1, true) or 0) - 1)
  return tonumber((string.match(own, ',"start_by":(%d+)')))
end
