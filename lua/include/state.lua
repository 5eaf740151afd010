-- state: reads and writes the states of tasks.
-- includes: nothing

local state_fields = {
  'state', 'attempt', 'max_attempts', 'first_due', 'due', 'queued', 'started', 'run', 'progress', 'cancel', 'finished', 'outcome',
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

-- node_of returns the node that made a run token; '' for nil.
local function node_of(run)
  return run and string.match(run, '^(.*)#') or ''
end

