-- attempts: the history of a task's attempts.
-- includes: state

-- record_attempt appends the newest attempt of a task, which has ended, to its history, which keeps the newest ones. fields
-- is the task's state at the end, reason the error.
local function record_attempt(member, fields, reason)
  redis.call('RPUSH', attempts_key(member), cjson.encode({
    number = tonumber(fields.attempt), node = node_of(fields.run), started = tonumber(fields.started),
    finished = tonumber(fields.finished), outcome = fields.outcome, error = reason }))
  redis.call('LTRIM', attempts_key(member), -ATTEMPT_HISTORY_LIMIT, -1)
end

