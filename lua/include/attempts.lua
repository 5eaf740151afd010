-- attempts: the history of a task's attempts.
-- includes: state, changes, damage
-- finally: write_attempts()

local ended_attempts = {}

-- record_attempt appends the newest attempt of a task, which has ended, to its history, which keeps the newest ones. fields
-- is the task's state at the end, reason the error.
local function record_attempt(member, fields, reason)
  ended_attempts[#ended_attempts + 1] = { key = attempts_key(member), record = cjson.encode({
    number = tonumber(fields.attempt), node = node_of(fields.run), started = tonumber(fields.started),
    finished = tonumber(fields.finished), outcome = fields.outcome, error = reason }) }
end

-- append adds a record to the history of a task.
local function append(attempt)
  redis.call('RPUSH', attempt.key, attempt.record)
  redis.call('LTRIM', attempt.key, -ATTEMPT_HISTORY_LIMIT, -1)
end

-- write_attempts comes after the removals of changes: a Redis that is full lets a script go on that has removed something.
local function write_attempts()
  for _, attempt in ipairs(ended_attempts) do
    try(append, attempt)
  end
end
