-- unreadable: tasks whose definition, long payload or state cannot be read.
-- includes: definition, findings, traces, aside

local READABLE = '^' .. string.rep('%d', 13) .. '{"type":"[%w._-]+"[^\n]*}\n'
local NEED_TASK = { -- checks, of which all but the first need its state
  'state-lost', 'payload-lost', 'scheduled-lost', 'queued-lost', 'running-lost', 'finished-lost', 'index-drift',
  'backlog-unlisted', 'live-lost', 'run-ahead', 'step-orphan', 'step-expires',
}
local QUOTED = 100 -- bytes of what cannot be read

-- is_same returns whether the definition of a task, or its long payload, still has that SHA-1.
local function is_same(member, record, digest)
  return redis.sha1hex(record) == digest or redis.sha1hex(stored_payload(member, record) or '') == digest
end

-- damage_of returns what of a task cannot be read; nil if it has a definition and a state by which it can be examined.
local function damage_of(record, text, fields)
  if not string.find(record, READABLE) then
    return 'its definition'
  end
  local readable = fields[LAST[fields.state] or '']
  for _, name in ipairs({ 'attempt', 'due', 'started', 'finished' }) do
    readable = readable and (not fields[name] or tonumber(fields[name]))
  end
  if not readable then
    return 'its state is "' .. (#text > QUOTED and string.sub(text, 1, QUOTED) .. '...' or text) .. '"'
  end
end

-- find_unreadable finds a task that cannot be read.
local function find_unreadable(member, listed, words)
  if report(member, 'task-unreadable', words) then
    put_aside(member, listed)
  else
    pass_over(member, words, NEED_TASK)
  end
end
