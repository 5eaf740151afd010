-- stateless: tasks that have lost their state, and what is known of it. A task whose first attempt has begun has one.
-- includes: clock, number, state, findings, listings, begun_attempts, unrun

-- ended_fields returns the fields of a state for a task that is listed as one that has ended since its creation; nil if
-- it is not. A cancelled one may have waited: then the attempt of its number has not begun, and never does.
local function ended_fields(member, record, listed, number, has_begun)
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled' }) do
    local ended = tonumber(listed[index_key(string.match(member, '^[^:]*'), state)])
    ended = ended and ended >= tonumber(string.sub(record, 1, 13)) and ended
    if ended and state == 'cancelled' and not has_begun then
      return { state = state, attempt = number, finished = int(ended) }
    elseif ended then
      ended = int(ended)
      return { state = state, attempt = number, outcome = state, started = ended, finished = ended, run = '#' }
    end
  end
end

-- waits_since returns when a task is due that is listed as one that waits; nil if it is not.
local function waits_since(member, record, listed)
  for _, set in ipairs(waiting_sets(member, record)) do
    if listed[set] then
      return due_of_rank(listed[set])
    end
  end
end

-- begun_or_ended returns the fields of a state for a task that has none, though it has begun, or is listed as one that
-- is queued, runs or has ended: no attempt may run again. nil for others: a task that was never claimed has no state.
-- The attempt that ended with its task is not in the history, so its number comes after those that are. leased: its
-- worker may live, and brings the state back when it extends the lease of its run.
local function begun_or_ended(member, record, listed)
  local recorded, begun = begun_attempts(member)
  local leased = (tonumber(listed[held_key]) or 0) > now
  local number, started = int(math.max(recorded + 1, begun)), listed[running_key]
  local ended, due = ended_fields(member, record, listed, number, begun > recorded), waits_since(member, record, listed)
  if ended then
    return ended
  elseif started and string.find(record, '^%d+{"type":"workflow"') then -- what became of its steps says the rest
    return { state = 'running', attempt = number, started = int(started), run = FLOW_RUN }
  elseif started or listed[held_key] then
    started = int(math.min(started or now, now))
  elseif listed[queued_key] then
    return { state = 'queued', attempt = int(begun + 1), queued = int(now) }
  elseif due then
    return begun > 0 and { state = 'scheduled', attempt = int(begun), due = int(due) } or nil
  elseif begun == 0 and not listed[expiry_key] and not runs_once(record) then
    return nil
  end
  local at = int(now)
  return {
    state = 'failed', attempt = number, outcome = 'lost', started = started or at, finished = at, run = '#',
    leased = leased,
  }
end

-- how_lost says of a task without a state what it has to be in.
local function how_lost(fields)
  if fields.state == 'queued' then
    return 'has no state, and is queued'
  elseif fields.state == 'scheduled' then
    return 'has no state, and waits for attempt ' .. int(fields.attempt + 1)
  end
  return 'has no state, and is listed as one that runs or has ended'
end

-- bring_back finds that a task lacks the state with those fields. Returns them if it has that state now.
local function bring_back(member, fields)
  if fields.leased then
    report_only(member, 'state-lost', 'has no state, and is leased: its worker brings the state back, if it lives')
    return nil
  elseif not report(member, 'state-lost', how_lost(fields)) then
    return nil
  end
  restore_state(member, fields)
  if fields.outcome == 'lost' then
    redis.call('HSET', errors_key, member, 'its state was lost, and it may have run: retry it if it may run twice')
  end
  return fields
end
