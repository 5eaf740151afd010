-- restore: writes tasks that Redis has lost, as they were when an attempt of them was claimed. Whoever knows them, as it runs or ran that
-- attempt, says next what became of it.
-- includes: clock, number, changes, definition, scheduled_tick, once, state, hold_again
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   tasks  (member member, created time, def text, state text, tick time)*  created: of the task; def: the head, a line break, and the
--     payload; state: queued; tick: of the tick whose task it is, none for other tasks
-- reply:
--   now       time
--   restored  number  tasks that Redis had lost
-- refuses: nothing
-- repeat: harmless: what exists, or has been deleted since, stays as it is
-- full: works
local members = {}
for member in tasks() do
  members[#members + 1] = member
end
local records, memories = redis.call('HMGET', defs, unpack(members)), redis.call('HMGET', remembered_key, unpack(members))
local ends = redis.call('ZMSCORE', deleted_key, unpack(members))

-- was_deleted reports whether the ith task, or a later one of its name, was deleted after its end: that is noted for a while, or its name is remembered,
-- or its tick recorded together with it. What was noted before it was created was another task.
local function was_deleted(i, member, created, tick)
  return ends[i] and tonumber(ends[i]) >= created or memories[i] or tick and outcome_with_task(member, tick)
end

local restored, i = 0, 0
for member, created, def, state, tick in tasks() do
  i = i + 1
  if not records[i] and not was_deleted(i, member, created, tick) then
    local stored, payload = split_payload(def)
    set_later(defs, member, int(created) .. stored)
    if payload then
      set_later(payloads_key, member, payload)
    end
    set_later(states_key, member, state)
    hold_again(member, limits_in(state))
    put_later(queued_key, int(now + LOOK_LIMIT), member)
    if tick then
      live_again(member, tick)
      redis.call('RPUSH', remembered_order_key, member) -- it may be deleted before its tick is decided again
      set_later(remembered_key, member, '- - ' .. int(created) .. ' ' .. int(now))
    end
    local key, name = split_key(member)
    if key and redis.call('HEXISTS', once_key, key) == 0 then
      write_key(key, { front = name, first = 0, upcoming = 0, seen = '' })
    end
    restored = restored + 1
  end
end
return { now, restored }
