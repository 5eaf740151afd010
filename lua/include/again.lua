-- again: has tasks that have ended begin again.
-- needs: arg events, arg wake
-- includes: clock, number, state, changes, definition, events, wheel, noted, attempts, damage, starting

-- unlist removes a task from those that are listed in a state.
local function unlist(member, state)
  redis.call('ZREM', index_key(string.match(member, '^[^:]+'), state), member)
end

-- start_over puts a task that has ended, whose state has those fields, back on the wheel until due (ms), for so many
-- further attempts.
local function start_over(member, record, fields, attempts, due)
  if fields.outcome then -- a task can end without an attempt
    record_attempt(member, fields, redis.call('HGET', errors_key, member) or '')
  end
  redis.call('HSET', states_key, member, format_state({
    state = 'scheduled', attempt = fields.attempt, max_attempts = int(fields.attempt + attempts), due = int(due),
  }))
  redis.call('HDEL', results_key, member)
  redis.call('HDEL', errors_key, member)
  try(unlist, member, fields.state)
  redis.call('ZREM', expiry_key, member)
  announce('scheduled', member, 'scheduled', fields.attempt, '', record, ',"due":' .. int(due))
  put_on_wheel(member, due)
  note_start_by(member, record, due)
  note_row(member)
end

-- begin_again puts a task that has ended, whose state has those fields, back on the wheel with a new definition, for so
-- many further attempts.
local function begin_again(member, record, def, fields, attempts)
  local stored, payload = split_payload(def)
  record = string.sub(record, 1, 13) .. stored
  redis.call('HSET', defs_key, member, record)
  redis.call('HDEL', payloads_key, member)
  if payload then
    redis.call('HSET', payloads_key, member, payload)
  end
  redis.call('HDEL', originals_key, member)
  redis.call('HDEL', checkpoints_key, member)
  start_over(member, record, fields, attempts, now)
end
