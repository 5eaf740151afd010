-- tick_of: whether a task is that of a tick.
-- includes: nothing

-- tick_of returns the schedule of a task, with its namespace, and the name of the tick; nil for the task of no tick. A
-- name that begins with e is that of a follow-up, one that begins with k that of a task with a key, and one that begins
-- with a dot that of a step of a run.
local function tick_of(member)
  if not string.find(member, '@', 1, true) then
    return nil
  end
  return string.match(member, '^([^@]+)@([^.ek@][^@]*)$')
end
