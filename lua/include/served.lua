-- served: which queues and types the living workers serve, as the leader says. A line is an offer: its queues, each
-- between commas, and the types that all of them run, each between blanks; "*" stands for all types. A queue may be in
-- several lines.
-- needs: arg served
-- includes: nothing

local FEW = 8 -- queues that are looked for one by one: reading all of a long text takes as long as to look for some
local types_of, looked_for, read = {}, 0, false -- types_of: by queue, the types of each line that has it

-- read_all reads the whole text.
local function read_all()
  types_of, read = {}, true
  for queues, types in string.gmatch(served, '(%S+)( [^\n]*\n)') do
    for queue in string.gmatch(queues, '[^,]+') do
      local lines = types_of[queue] or {}
      lines[#lines + 1] = types
      types_of[queue] = lines
    end
  end
end

-- look_for looks for the lines of one queue.
local function look_for(queue)
  local lines, sought = {}, ',' .. queue .. ','
  local at = string.find(served, sought, 1, true)
  while at do
    lines[#lines + 1] = string.match(served, ' [^\n]*\n', at)
    at = string.find(served, sought, string.find(served, '\n', at, true), true)
  end
  looked_for = looked_for + 1
  types_of[queue] = lines
end

-- lines_of returns the types of each line that has a queue.
local function lines_of(queue)
  if not types_of[queue] and not read then
    (looked_for < FEW and look_for or read_all)(queue)
  end
  return types_of[queue] or {}
end

-- serves returns whether somebody serves a queue, and whether that worker runs tasks of a type. A leader that says
-- nothing knows nothing.
local function serves(queue, task_type)
  if served == '' then
    return true, true
  end
  local lines = lines_of(queue)
  for _, types in ipairs(lines) do
    if types == ' * \n' or string.find(types, ' ' .. task_type .. ' ', 1, true) then
      return true, true
    end
  end
  return #lines > 0, false
end

-- is_served returns whether tasks that wait under a name can run: that of a queue or of a lane.
local function is_served(name)
  if name == UNNAMED then
    return false
  end
  local queue, task_type = string.match(name, '^(%S+) (%S+)')
  local is_of_type = task_type and task_type ~= '*'
  local serves_queue, runs_type = serves(queue or name, task_type or '')
  return serves_queue and (runs_type or not is_of_type)
end
