-- served: which queues and types the living workers serve, as the leader says. A group is a line: its queues, each
-- between commas, and the types that all of them run, each between blanks; "*" stands for all types.
-- needs: arg served
-- includes: nothing

-- serves returns whether somebody serves a queue, and whether that worker runs tasks of a type. A leader that says
-- nothing knows nothing.
local function serves(queue, task_type)
  if served == '' then
    return true, true
  end
  local at = string.find(served, ',' .. queue .. ',', 1, true)
  if not at then
    return false, false
  end
  local line = string.sub(served, at, string.find(served, '\n', at, true))
  local runs = string.find(line, ' ' .. task_type .. ' ', 1, true) or string.find(line, ' * ', 1, true)
  return true, runs ~= nil
end

-- is_served returns whether tasks that wait under a name can run: that of a queue or of a lane.
local function is_served(name)
  local queue, task_type = string.match(name, '^(%S+) (%S+)$')
  local serves_queue, runs_type = serves(queue or name, task_type or '')
  return serves_queue and (runs_type or not task_type)
end
