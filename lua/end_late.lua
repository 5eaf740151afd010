-- end_late: a leader cancels tasks that nobody has begun in time, and removes their entries from the outbox.
-- includes: number, refuse, fence, changes, stop
-- keys:
--   lease   STRING
--   defs    HASH    the script makes further keys of the same partition
--   outbox  ZSET
-- args:
--   fence    fence  that this leader got with the lease
--   events   channel
--   control  channel
--   wake     channel
--   items    (entry text, member member, due time, reason text, later time)*
--     due: when the leader has seen that the task is due; reason: why it ends, "" if it has begun, or is gone; later:
--     keep the entry until then; none to remove it
-- reply:
--   answers  text*  for each entry expired; none; later; changed, as the task has begun or has another due time; or
--     gone, as another leader has done it
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the entries are gone
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

-- has_begun returns whether a task with those fields has ever begun.
local function has_begun(fields)
  local unclaimed = fields.state == 'scheduled' and fields.attempt == '0'
  return not unclaimed and not (fields.state == 'queued' and fields.attempt == '1')
end

-- end_late cancels a task that nobody has begun and that was due at that time. Returns whether it did.
local function end_late(member, due, reason)
  local record = redis.call('HGET', defs, member)
  local fields = state_of(member, record)
  if not fields or has_begun(fields) or tonumber(due_of(member, record) or fields.due) ~= due then
    return false
  end
  end_waiting(member, record, fields, '')
  redis.call('HSET', errors_key, member, reason)
  return true
end

local answers = {}
for entry, member, due, reason, later in items() do
  local answer = 'none'
  if not redis.call('ZSCORE', outbox, entry) then
    answer = 'gone'
  elseif later then
    answer = 'later'
    redis.call('ZADD', outbox, int(later), entry)
  else
    if reason ~= '' then
      answer = end_late(member, due, reason) and 'expired' or 'changed'
    end
    if answer ~= 'changed' then
      redis.call('ZREM', outbox, entry)
    end
  end
  answers[#answers + 1] = answer
end
return { answers }
