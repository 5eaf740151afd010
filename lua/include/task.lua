-- task: reads a task for the reply of a script that changed it.
-- includes: definition

-- read_task returns a task as the header of read_tasks describes it: definition, payload, state, due time (ms, nil if the
-- task is not scheduled), result and error.
local function read_task(member, due)
  local record = redis.call('HGET', defs_key, member)
  return {
    record, stored_payload(member, record), redis.call('HGET', states_key, member) or '', due and tonumber(due) or false,
    redis.call('HGET', results_key, member) or '', redis.call('HGET', errors_key, member) or '',
  }
end

