-- taken: the answers to submissions whose names are taken.
-- includes: definition

-- answer_stored returns the answer to the submission of a task that is stored: existed if the content is the same, else
-- "other " and what is stored.
local function answer_stored(member, record, task)
  local stored = def_of(record)
  if string.find(stored, '\n', 1, true) then -- else somebody has damaged it
    stored = without_trace(stored)
  end
  if stored == task.def or redis.call('HGET', originals_key, member) == redis.sha1hex(task.whole) then
    return 'existed'
  end
  return 'other ' .. stored
end

-- answer_remembered returns the answer to the submission of a task whose name is remembered: how it ended if the
-- content is the same, else conflict.
local function answer_remembered(memory, task)
  local digest, rest = string.sub(memory, 1, 16), string.sub(memory, 18)
  if digest == string.sub(redis.sha1hex(task.def), 1, 16) or digest == string.sub(redis.sha1hex(task.whole), 1, 16) then
    return rest
  end
  return 'conflict'
end
