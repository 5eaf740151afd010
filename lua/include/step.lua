-- step: the tasks of steps of runs of workflows.
-- includes: number

-- run_of returns the run to which the task of a step belongs; nil for another task.
local function run_of(member)
  return string.find(member, '@.', 1, true) and string.match(member, '^([^:]+:.+)@%.[^@]*$')
end

-- keep_step changes whether the task of a step that has ended is kept as long as its run: mark is ">" or "". text is
-- its state, and at is when it is deleted, unless the mark keeps it.
local function keep_step(member, text, mark, at)
  redis.call('HSET', states_key, member, (string.gsub(text, '^(%a+ %d+ %d+)>?', '%1' .. mark)))
  redis.call('ZADD', expiry_key, int(at), member)
end
