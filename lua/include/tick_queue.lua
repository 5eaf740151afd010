-- tick_queue: the queue of the tasks of a schedule, beside the definition of the task, which has the payload.
-- includes: definition

-- queue_note returns what the hash of a schedule has in its field queue: for which revision that holds, and the queue.
local function queue_note(revision, def)
  return revision .. ' ' .. queue_of(def)
end

-- queue_of_ticks returns the queue of the tasks of a schedule with that revision; '' if it has no task. If a node that
-- writes no note has put the revision, only the definition says it.
local function queue_of_ticks(member, revision)
  local noted, queue = string.match(redis.call('HGET', schedule_key(member), 'queue') or '', '^(%d+) (.*)$')
  if noted and noted == revision then
    return queue
  end
  local def = redis.call('HGET', schedule_key(member), 'task')
  return def and queue_of(def) or ''
end
