-- awaited: under which names a task may wait.
-- includes: turn, moved, state

-- names_of_waiting returns the names under which a task with that record may wait: its own ones, and UNNAMED. Its state
-- says which limits it had when it began to wait, and whether it was given up.
local function names_of_waiting(member, record)
  local task_type, queue, _, fair, _, _, reach = read_start(record)
  local text = redis.call('HGET', states_key, member) or ''
  local limits, moved = limits_in(text), string.find(text, ':', 1, true) and away.reach(parse_state(text), reach)
  local names = names_of(queue, task_type, fair, limits, reach)
  for _, name in ipairs(moved and names_of(queue, task_type, fair, limits, moved) or {}) do
    names[#names + 1] = name
  end
  names[#names + 1] = UNNAMED
  return names
end
