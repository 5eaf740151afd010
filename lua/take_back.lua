-- take_back: a leader takes queued tasks back whose deliveries no worker can take, as it has not enqueued them or has recalled them.
-- They wait apart, in their queue or their lane, for the same attempt.
-- includes: clock, number, refuse, fence, state, changes, definition, turn, apart, noted, holders, events
-- keys:
--   lease   STRING  the script makes further keys of the same partition
--   states  HASH
-- args:
--   fence       fence  that this leader got with the lease
--   events      channel
--   wake        channel
--   deliveries  (member member, attempt attempt, lane flag)*  lane: their queue is served, and only not their type
-- reply:
--   taken  number  tasks that were taken back
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the tasks are not queued any more
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local taken = 0
for member, attempt, lane in deliveries() do
  local record, text = redis.call('HGET', defs_key, member), redis.call('HGET', states, member)
  if record and text and queued_attempt(text) == attempt then
    local fields = parse_state(text)
    fields.state, fields.attempt, fields.queued = 'scheduled', int(attempt - 1), nil
    set_later(states, member, format_state(fields))
    remove_later(queued_key, member)
    free_slots(member, limits_of_fields(fields))
    local task_type, queue, ahead, fair, _, _, reach = read_start(record)
    local pool = lane and type_lane(queue, task_type) or queue
    local name = lane_name(pool, fair, nil, lane and reach)
    leave_apart({ pool = pool, name = name, ahead = ahead }, member, fields.due, record)
    note_row(member)
    announce('scheduled', member, 'scheduled', fields.attempt, '', record, ',"due":' .. fields.due)
    taken = taken + 1
  end
end
return { taken }
