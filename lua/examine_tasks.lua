-- examine_tasks: finds what of tasks does not fit together, each task in one moment, and repairs it if it is asked to: a task is listed
-- where and for when its state says, and nothing is left of tasks that do not exist. Leaders do what follows.
-- includes: state, definition, findings, listings, entries, traces, stateless, unreadable, unlive, unheld, unrun, wakes, noted
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   lease    ms    for which a running task is leased that has no lease: until then its worker extends it, or has died
--   name     text  the queue, or lane, in whose set of ready tasks the members were found; "" if they were found elsewhere. Those that may be
--     in that set are left out: a call without a name examines them
--   wake     channel
--   members  (member text, tick time, broken text, digest text)*  tick: that of the name, none for a task of no tick.
--     broken: why the caller cannot read the definition or the long payload with that SHA-1; "" if it can, or has not tried
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local placed = false

-- place finds where a task is listed wrongly, or for a wrong time, and where it is missing.
local function place(member, state, listed, wanted)
  local lost = (LAST[state] == 'finished' and 'finished' or state) .. '-lost'
  for set, entry in pairs(wanted) do
    local wrong = whats_wrong(set, listed[set], entry)
    if wrong and report(member, lost, 'is ' .. state .. ', and ' .. wrong) then
      list_in(set, member, entry.score)
      note_row(member)
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
  for _, queue in ipairs(names_of_waiting(member, record)) do
    if wanted[ready_key(queue)] and redis.call('SISMEMBER', backlog_key, queue) == 0 and
        report(member, 'backlog-unlisted', 'waits in ' .. ready_key(queue) .. ', which is not in the backlog') then
      redis.call('SADD', backlog_key, queue)
      placed = true
    end
  end
end

for member, tick, broken, digest in unknown(members()) do
  local record, text = redis.call('HGET', defs, member), redis.call('HGET', states_key, member)
  local fields, listed = parse_state(text or 'scheduled 0'), listings_of(member, record)
  local damage = record and
    (damage_of(record, text, fields) or broken ~= '' and is_same(member, record, digest) and broken)
  local missing = record and not damage and not text and begun_or_ended(member, record, listed)
  if missing then
    fields = bring_back(member, missing)
    pass_over(member, 'has no state', fields and {} or { unpack(NEED_TASK, 2) })
  end
  if not record then
    clear(member, text, listed)
  elseif damage then
    find_unreadable(member, listed, 'cannot be read: ' .. damage)
  elseif fields then
    local wanted = listings_for(member, record, fields, listed)
    place(member, fields.state, listed, wanted)
    if missing then
      note_row(member)
    end
    note_backlog(member, record, wanted)
    if LAST[fields.state] ~= 'finished' then
      find_unlive(member, fields.state, record, tick)
      find_unheld(member, text)
    end
    find_unrun(member, fields, redis.call('HGET', states_key, member))
    if is_apart(record) and redis.call('HEXISTS', payloads_key, member) == 0 then
      report(member, 'payload-lost', 'has no payload')
    end
  end
end
if placed then
  wake_leader('task')
end
return { found }
