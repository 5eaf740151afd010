-- creation: creates tasks, which wait on the wheel.
-- needs: key defs, arg events, arg wake
-- includes: clock, number, changes, definition, events, wheel, noted, starting

-- given_task returns a task to create: its definition (the head, a line break, and the payload), in the canonical form
-- and as it is stored, which may have a trace. It is due at that time (ms).
local function given_task(whole, due, def)
  local stored, payload = split_payload(whole)
  local task = { whole = whole, def = stored, payload = payload, due = due }
  if whole ~= def then
    task.traced = split_payload(def)
  end
  return task
end

local now_text = int(now)

-- record_of returns what is stored of a task.
local function record_of(task)
  return now_text .. (task.traced or task.def)
end

-- create_task writes a task. It returns what is stored of it.
local function create_task(member, task)
  local record = record_of(task)
  set_later(defs, member, record)
  if task.payload then
    set_later(payloads_key, member, task.payload)
  end
  if task.traced then -- it is not stored in the canonical form
    set_later(originals_key, member, redis.sha1hex(task.whole))
  end
  if followed then
    announce('scheduled', member, 'scheduled', '0', '', record, when_due(record, task.due))
  end
  put_on_wheel(member, task.due)
  note_start_by(member, record, task.due)
  if task.due > now then
    note_row(member)
  end
  return record
end
