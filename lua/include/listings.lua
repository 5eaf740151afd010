-- listings: in which sorted sets tasks are listed, and in which they belong.
-- needs: arg lease, arg name
-- includes: clock, definition

-- waiting_sets returns the sets in one of which a scheduled task waits.
local function waiting_sets(record)
  return { wheel_key(), ready_key(queue_of(record)), ready_key(lane_of(record)) }
end

-- listings_of returns the scores of a member by the keys of the sets in which it is listed. record is nil if there is no such task.
local function listings_of(member, record)
  local sets = record and waiting_sets(record) or { wheel_key() }
  for _, set in ipairs({ queued_key(), running_key(), held_key(), expiry_key() }) do
    sets[#sets + 1] = set
  end
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    sets[#sets + 1] = index_key(string.match(member, '^[^:]*'), state)
  end
  if name ~= '' then
    sets[#sets + 1] = ready_key(name)
  end
  local listed = {}
  for _, set in ipairs(sets) do
    listed[set] = redis.call('ZSCORE', set, member) or nil
  end
  return listed
end

-- first_due returns when a scheduled task is due, as far as its state or its definition says so.
local function first_due(record, fields)
  local head = head_of(record)
  return fields.due or string.match(head, '"at":(%d+)') or
    tonumber(string.sub(record, 1, 13)) + (string.match(head, '"delay":(%d+)') or 0)
end

-- kept_until returns when a task that has ended is forgotten.
local function kept_until(record, fields)
  local default = fields.state == 'failed' and FAILED_RETENTION or DEFAULT_RETENTION
  return fields.finished + (string.match(head_of(record), '"retention":(%d+)') or default)
end

-- listings_for returns the scores that a task must have by the keys of the sets in which it must be listed. listed is what listings_of
-- returned.
local function listings_for(member, record, fields, listed)
  if fields.state == 'scheduled' then
    for _, set in ipairs(waiting_sets(record)) do
      if listed[set] then
        return { [set] = listed[set] }
      end
    end
    return { [wheel_key()] = first_due(record, fields) }
  elseif fields.state == 'queued' then
    return { [queued_key()] = now }
  elseif fields.state == 'running' then
    return { [running_key()] = fields.started or now, [held_key()] = now + lease }
  end
  return { [index_key(string.match(member, '^[^:]*'), fields.state)] = fields.finished, [expiry_key()] = kept_until(record, fields) }
end
