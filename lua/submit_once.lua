-- submit_once: a submission with a key. It creates a task or, as its mode says, does something with the tasks of
-- that key that have not ended. One whose name is taken by a task of that key was submitted before. A dry run only
-- says what would come of it.
-- includes: clock, number, definition, events, wheel, noted, creation, taken, place, stop, once, decide, standing,
--   starting
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   member   member  of the task to create: the key, "@k" and the name of the submission
--   mode     text    of task.Once, as those that follow
--   wait     ms
--   max      ms      0 for none
--   drop     flag
--   every    ms
--   def      text    the head, a line break, and the payload
--   traced   text    def with its trace, "" without one
--   run_at   time    when it is due; none to be due after delay, from now
--   delay    ms
--   by       text    who submits it, "" if nobody knows
--   dry      flag
--   events   channel
--   control  channel
--   wake     channel
-- reply:
--   now       time
--   outcome   text  of task.Once; or, if the name is taken, as create answers: existed, conflict, "other " and what is
--     stored, or what is remembered
--   task      member  the task that the outcome is about
--   due       time  of the task that is created; none for others
--   upcoming  time  when a throttle lets the next task be due; none for other modes
--   front     member  the task whose end the one that is created waits for; the task itself for none
-- refuses: nothing
-- repeat: harmless: the second run finds the task that the first one created, or that the first one has replaced one
-- full: refused
local key, name = split_key(member)
local known = read_key(key)
local task = given_task(def, 0, traced ~= '' and traced or def)

-- answer_taken returns the answer to a submission whose name is taken; nil if it is not.
local function answer_taken()
  local record, memory = redis.call('HGET', defs, member), redis.call('HGET', remembered_key, member)
  return record and answer_stored(member, record, task) or memory and answer_remembered(memory, task) or nil
end

-- replace makes a task that waits this submission. It keeps its name, and its time if due is nil.
local function replace(waiting, due)
  local record = redis.call('HGET', defs, waiting)
  local before = without_trace(def_of(record))
  if is_apart(record) then
    before = string.match(before, '^[^\n]*\n') .. stored_payload(waiting, record)
  end
  due = tonumber(due or due_of(waiting, record)) or now
  unschedule(waiting, record)
  redis.call('HSETNX', originals_key, waiting, redis.sha1hex(before))
  record = string.sub(record, 1, 13) .. (task.traced or task.def)
  redis.call('HSET', defs, waiting, record)
  redis.call('HDEL', payloads_key, waiting)
  if task.payload then
    redis.call('HSET', payloads_key, waiting, task.payload)
  end
  announce('updated', waiting, 'scheduled', '0', '', record, when_due(record, due))
  put_on_wheel(waiting, due)
  note_start_by(waiting, record, due)
  note_row(waiting)
end

local taken = answer_taken()
if taken then
  return { now, taken, member, false, false, member }
end
if was_seen(known, name) then
  return { now, 'replaced', key .. '@k' .. (known.behind or known.front or name), false, false, member }
end
local o = { mode = mode, wait = wait, max = max, drop = drop, due = math.max(run_at or now + delay, now) }
local waits = standing_of(key, known.behind) == 'wait'
local outcome, place, due, stops = decide(o, standing_of(key, known.front), waits, known)
local front = known.front and key .. '@k' .. known.front
local about = place == 'front' and front or place == 'behind' and key .. '@k' .. known.behind or member
known.upcoming = mode == 'throttle' and place == 'new' and due + every or known.upcoming
if not dry then
  if stops then
    stop_task(front, by)
  end
  if outcome == 'replaced' then
    replace(about, due)
    note_seen(known, name)
    write_key(key, known)
  elseif about == member then
    task.due = due
    create_task(member, task)
    if place == 'new' then
      known.front, known.first = name, now
    else
      known.behind = name
    end
    write_key(key, known)
  end
end
return {
  now, outcome, about, about == member and due or false, mode == 'throttle' and known.upcoming or false,
  place == 'after' and front or about,
}
