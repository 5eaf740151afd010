-- place: where scheduled tasks wait: on the wheel or in a set of ready tasks. A set has what is due and finds no room,
-- of a queue, of a lane, or of all tasks without a name.
-- includes: turn, moved, awaited, damage

-- score_of returns the score of a member in a set, as text; nil if there is none.
local function score_of(set, member)
  return redis.call('ZSCORE', set, member) or nil
end

-- due_of returns when a scheduled task is due, as text; nil if it is not scheduled.
local function due_of(member, record)
  local due = score_of(wheel_key, member)
  if due then
    return away.due(due)
  end
  for _, name in ipairs(names_of_waiting(member, record)) do
    local rank = try(score_of, ready_key(name), member)
    if rank then
      return due_of_rank(rank)
    end
  end
end

-- may_be_ready returns whether a task may wait in a set that has the wrong type: it is not listed as one that was
-- claimed.
local function may_be_ready(member, record)
  local broken = false
  for _, name in ipairs(names_of_waiting(member, record)) do
    local kind = redis.call('TYPE', ready_key(name)).ok
    broken = broken or kind ~= 'zset' and kind ~= 'none'
  end
  local claimed = false
  for _, set in ipairs(broken and { queued_key, running_key, expiry_key } or {}) do
    claimed = claimed or try(score_of, set, member)
  end
  return broken and not claimed
end

-- due_unclaimed returns when a task without a state is due, as text: the time of its creation if that cannot be read.
-- It returns nil if the task waits nowhere: it was claimed, and has lost its state.
local function due_unclaimed(member, record)
  return due_of(member, record) or may_be_ready(member, record) and string.sub(record, 1, 13) or nil
end

-- leave_ready removes a task that waits under a name.
local function leave_ready(name, member)
  local left = redis.call('ZREM', ready_key(name), member) == 1
  if left and redis.call('EXISTS', ready_key(name)) == 0 then
    redis.call('SREM', backlog_key, name)
  end
end

-- unschedule removes a task from where it waits.
local function unschedule(member, record)
  if redis.call('ZREM', wheel_key, member) == 1 then
    return
  end
  for _, name in ipairs(names_of_waiting(member, record)) do
    try(leave_ready, name, member)
  end
end

