-- attempts: the history of a task's attempts.
-- needs: key attempts
-- includes: clock

-- record_attempt appends an attempt that ended to the history, which keeps the newest ones. started is in ms.
local function record_attempt(number, node, started, outcome, err)
  redis.call('RPUSH', attempts, cjson.encode({
    number = tonumber(number), node = node, started = tonumber(started), finished = now,
    outcome = outcome, error = err }))
  redis.call('LTRIM', attempts, -ATTEMPT_HISTORY_LIMIT, -1)
end

