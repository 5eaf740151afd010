-- step: the tasks of steps of runs of workflows.
-- includes: nothing

-- run_of returns the run to which the task of a step belongs; nil for another task.
local function run_of(member)
  return string.find(member, '@.', 1, true) and string.match(member, '^([^:]+:.+)@%.[^@]*$')
end
