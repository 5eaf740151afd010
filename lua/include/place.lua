-- place: where scheduled tasks wait: on the wheel or, if they are due and there is no room for them, in the set of ready tasks of their
-- queue, of their lane, or of those without a name.
-- includes: definition

-- due_of returns when a scheduled task is due, as text; nil if it is not scheduled.
local function due_of(member, record)
  return redis.call('ZSCORE', wheel_key(), member) or redis.call('ZSCORE', ready_key(queue_of(record)), member) or
    redis.call('ZSCORE', ready_key(lane_of(record)), member) or redis.call('ZSCORE', ready_key(UNNAMED), member) or nil
end

-- unschedule removes a task from where it waits.
local function unschedule(member, record)
  if redis.call('ZREM', wheel_key(), member) == 1 then
    return
  end
  for _, name in ipairs({ queue_of(record), lane_of(record), UNNAMED }) do
    if redis.call('ZREM', ready_key(name), member) == 1 and redis.call('EXISTS', ready_key(name)) == 0 then
      redis.call('SREM', backlog_key(), name)
    end
  end
end

