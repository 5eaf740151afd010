-- listings: in which sorted sets tasks are listed.
-- needs: arg name
-- includes: definition

-- waiting_sets returns the sets in one of which a scheduled task waits.
local function waiting_sets(record)
  return { wheel_key(), ready_key(queue_of(record)), ready_key(lane_of(record)), ready_key(UNNAMED) }
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
