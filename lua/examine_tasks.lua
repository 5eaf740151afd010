-- examine_tasks: finds what of tasks does not fit together, each task in one moment, and repairs it if it is asked to: a task is listed
-- where and for when its state says, and nothing is left of tasks that do not exist. Leaders do what follows.
-- includes: clock, number, state, definition, findings, listings, entries, remains, aside, wakes
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   lease    ms    for which a running task is leased that has no lease: until then its worker extends it, or has died
--   name     text  the queue, or lane, in whose set of ready tasks the members were found; "" if they were found elsewhere. Those that may be
--     in that set are left out: a call without a name examines them
--   wake     channel
--   members  text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local LAST = { -- the last field that a state must have
  scheduled = 'attempt', queued = 'queued', running = 'run', succeeded = 'finished', failed = 'finished', cancelled = 'finished',
}
local READABLE = '^' .. string.rep('%d', 13) .. '{"type":"[^"]+"[^\n]*}\n'
local placed = false

-- begun_or_ended returns the fields of a state for a task that has none, though the task is listed as one that runs or has
-- ended, and nowhere as one that waits: it must not run again. nil for others: a task that was never claimed has no state.
local function begun_or_ended(member, record, listed)
  for _, set in ipairs(waiting_sets(record)) do
    if listed[set] then
      return nil
    end
  end
  local fields = { attempt = '1', queued = int(now), started = int(now), run = '#', finished = int(now) }
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    local ended = listed[index_key(string.match(member, '^[^:]*'), state)]
    if ended then
      fields.state, fields.outcome, fields.finished = state, state, int(ended)
      return fields
    end
  end
  if listed[expiry_key()] or listed[running_key()] or listed[held_key()] then
    fields.state, fields.outcome = 'failed', 'lost'
    return fields
  end
end

-- bring_back finds that a task lacks the state with those fields. Returns them if it has that state now.
local function bring_back(member, fields)
  if not report(member, 'state-lost', 'has no state, and is listed as one that runs or has ended') then
    return nil
  end
  redis.call('HSET', states_key(), member, format_state(fields))
  if fields.outcome == 'lost' then
    redis.call('HSET', errors_key(), member, 'its state was lost, and it may have run: retry it if it may run twice')
  end
  return fields
end

-- damage_of returns what of a task cannot be read; nil if everything can be.
local function damage_of(record, text, fields)
  if not string.find(record, READABLE) then
    return 'its definition'
  elseif not fields[LAST[fields.state] or ''] then
    return 'its state, ' .. text
  end
end

-- clear finds what is left of a task that does not exist, unless it waits in an older layout.
local function clear(member, listed)
  local hashes, keys = remains_of(member)
  local places = {}
  for set in pairs(listed) do
    places[#places + 1] = set
  end
  for _, more in ipairs({ hashes, keys }) do
    for _, key in ipairs(more) do
      places[#places + 1] = key
    end
  end
  if #places > 0 and not redis.call('ZSCORE', unconverted_key(), member) and
      report(member, 'task-leftovers', 'does not exist, and is left in ' .. table.concat(places, ', ')) then
    for set in pairs(listed) do
      redis.call('ZREM', set, member)
    end
    for _, hash in ipairs(hashes) do
      redis.call('HDEL', hash, member)
    end
    for _, key in ipairs(keys) do
      redis.call('UNLINK', key)
    end
  end
end

-- place finds where a task is listed wrongly, or for a wrong time, and where it is missing.
local function place(member, state, listed, wanted)
  local lost = (LAST[state] == 'finished' and 'finished' or state) .. '-lost'
  for set, entry in pairs(wanted) do
    local wrong = whats_wrong(set, listed[set], entry)
    if wrong and report(member, lost, 'is ' .. state .. ', and ' .. wrong) then
      list_in(set, member, entry.score)
      placed = true
    end
  end
  for set in pairs(listed) do
    if not wanted[set] and report(member, 'index-drift', 'is ' .. state .. ', and in ' .. set) then
      redis.call('ZREM', set, member)
    end
  end
end

-- note_backlog finds a set of ready tasks of which leaders do not know.
local function note_backlog(member, record, wanted)
  for _, queue in ipairs({ queue_of(record), lane_of(record), UNNAMED }) do
    if wanted[ready_key(queue)] and redis.call('SISMEMBER', backlog_key(), queue) == 0 and
        report(member, 'backlog-unlisted', 'waits in ' .. ready_key(queue) .. ', which is not in the backlog') then
      redis.call('SADD', backlog_key(), queue)
      placed = true
    end
  end
end

for member in unknown(members()) do
  local record, text = redis.call('HGET', defs, member), redis.call('HGET', states_key(), member)
  local fields, listed = parse_state(text or 'scheduled 0'), listings_of(member, record)
  local damage = record and damage_of(record, text, fields)
  local missing = record and not damage and not text and begun_or_ended(member, record, listed)
  if missing then
    fields = bring_back(member, missing)
  end
  if not record then
    clear(member, listed)
  elseif damage then
    put_aside(report(member, 'task-unreadable', 'cannot be read: ' .. damage) and member, listed)
  elseif fields then
    local wanted = listings_for(member, record, fields, listed)
    place(member, fields.state, listed, wanted)
    note_backlog(member, record, wanted)
    if is_apart(record) and redis.call('HEXISTS', payloads_key(), member) == 0 then
      report(member, 'payload-lost', 'has no payload')
    end
  end
end
if placed then
  wake_leader('task')
end
return { found }
