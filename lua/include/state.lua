-- state: reads and writes the states of tasks: lines of the fields state, attempt, max_attempts, first_due, due, queued,
-- started, run, progress, cancel, finished, outcome and moving. What many tasks need at once works on the text; parse_state and
-- format_state are for the rest. A mark, ">", behind max_attempts says that the end of the task owes a follow-up. Behind
-- that, "@" and a node say to which one alone it was handed over. Behind that, "+" and limits say of which a live task
-- holds a slot, or under which a scheduled one has waited. The field moving is the time of the request to move, the node
-- to which the task is to go and who asked, with colons between; behind them, once it was given up, the node that did so.
-- includes: nothing

local state_fields = {
  'state', 'attempt', 'max_attempts', 'first_due', 'due', 'queued', 'started', 'run', 'progress', 'cancel', 'finished', 'outcome',
  'moving',
}

-- parse_state returns the fields of a state by name, as text. Fields that are 0 or missing are nil, but for the attempt.
local function parse_state(text)
  local fields, i = {}, 0
  for value in string.gmatch(text, '%S+') do
    i = i + 1
    if value ~= '0' or i == 2 then
      fields[state_fields[i]] = value
    end
  end
  return fields
end

-- is_state returns whether a text begins with a state and an attempt, as all do but what somebody has written by hand.
local function is_state(text)
  return string.find(text .. ' ', '^%s*%a+%s+%d+%s') ~= nil
end

-- format_state returns the text that parse_state reads.
local function format_state(fields)
  local values, last = {}, 0
  for i, name in ipairs(state_fields) do
    values[i] = fields[name] or '0'
    if values[i] ~= '0' then
      last = i
    end
  end
  return table.concat(values, ' ', 1, math.max(last, 2))
end

-- queued_attempt returns the number of the attempt for which a state is queued, as text; nil if it is not queued.
local function queued_attempt(text)
  return string.match(text, '^queued (%d+) ')
end

-- begun_state returns a queued state as it is when a run begins at that time (text).
local function begun_state(text, at, run)
  return 'running' .. string.sub(text, 7) .. ' ' .. at .. ' ' .. run
end

-- read_running returns the attempt of a running state, the fields between that and the run, the run, the progress and the time of
-- the request to stop, '' for none; nil if it does not run.
local function read_running(text)
  return string.match(text, '^running (%d+)( %d+%S* %d+ %d+ %d+ %d+ )(%S+) ?(%d*) ?(%d*)$')
end

-- ended_state returns the state of a task that ends at that time (text), from what read_running returned.
local function ended_state(state, attempt, between, run, progress, cancel, at, outcome)
  return state .. ' ' .. attempt .. between .. run .. ' ' .. (progress ~= '' and progress or '0') .. ' ' ..
    (cancel ~= '' and cancel or '0') .. ' ' .. at .. ' ' .. outcome
end

-- limits_in returns the limits that a state has; nil for none.
local function limits_in(text)
  return string.find(text, '+', 1, true) and string.match(text, '^%a+ %d+ %d+>?[^ +]*%+(%S+)') or nil
end

-- end_of returns the state of a task that has ended and when it did (text); nil for a task that has not.
local function end_of(text)
  local state, finished = string.match(text, '^(%a+) %d+ %d+%S* %d+ %d+ %d+ %d+ %S+ %S+ %d+ (%d+)')
  return finished ~= '0' and state or nil, finished
end

-- node_of returns the node that made a run token; '' for nil.
local function node_of(run)
  return run and string.match(run, '^(.*)#') or ''
end

