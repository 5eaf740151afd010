-- stop: cancels tasks.
-- needs: arg events, arg control, arg wake
-- includes: clock, number, fields, events, ended

-- retention_of returns how long a cancelled task is kept, in ms.
local function retention_of(def)
  return cjson.decode(head(def)).retention or DEFAULT_RETENTION
end

-- tell_to_stop asks the worker of a running task to stop it.
local function tell_to_stop(member, task)
  if not task.cancel then
    redis.call('HSET', task_key(member), 'cancel', int(now))
    announce('cancelling', member, task.state, task.attempt, task.node, task.def, '')
  end
  redis.call('PUBLISH', control, member .. ':' .. task.attempt)
end

-- end_waiting cancels a scheduled or queued task.
local function end_waiting(member, task)
  redis.call('HSET', task_key(member), 'state', 'cancelled', 'finished', int(now))
  redis.call('ZREM', wheel_key(), member)
  redis.call('ZREM', queued_key(), member)
  if task.attempt then
    redis.call('ZREM', inflight_key(), member .. ':' .. task.attempt)
  end
  redis.call('ZADD', index_key(string.match(member, '^[^:]+'), 'cancelled'), int(now), member)
  redis.call('ZADD', expiry_key(), int(now + retention_of(task.def)), member)
  announce('cancelled', member, 'cancelled', task.attempt or '0', task.node, task.def, '')
  task_ended(member, 'cancelled')
end

-- stop_task cancels a scheduled or queued task, and asks the worker of a running one to stop it. Other tasks stay as they
-- are.
local function stop_task(member)
  local task = read_fields(task_key(member), { 'state', 'attempt', 'cancel', 'node', 'def' })
  if task.state == 'running' then
    tell_to_stop(member, task)
  elseif task.state == 'scheduled' or task.state == 'queued' then
    end_waiting(member, task)
  end
end

