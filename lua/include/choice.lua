-- choice: chooses due tasks of queues and lanes. A name is that of a queue or, with a blank in it, of a lane. What
-- nobody serves waits apart under its name, and no claim looks at it until somebody does.
-- needs: key wheel, arg limit, arg quota
-- includes: clock, number, changes, definition, served

local members, dues, records = {}, {}, {} -- of the chosen tasks
local left, waits, oldest = {}, {}, {} -- by name; oldest: when the first one that waits was due, if that was read
local lanes = false -- whether any lane is known
local apart = {} -- by name that nobody serves: true if tasks wait under it, false if they are too many names
local listed = nil -- names under which tasks wait, if they were counted
local put_off = 0 -- tasks for which there is no name

-- note_name notes a name of which tasks wait, or which has a quota.
local function note_name(name)
  lanes = lanes or string.find(name, ' ', 1, true) ~= nil
  return name
end

local places = {} -- names, and whether nobody serves them, by how a record begins
-- How the last record began, where that ends, and its place: neighbours mostly begin alike.
local last_start, last_end, last_place

-- start_of returns how a record begins, up to the name of the queue or, if that is the default one, so far that no
-- other queue can follow; its type; and its queue. The first two are nil if it cannot be read.
local function start_of(record)
  local start, task_type, queue = string.match(record, '^({"type":"([^"]*)","queue":"([^"]*)")', 14)
  if not start then
    start, task_type = string.match(record, '^({"type":"([^"]*)".?.?.?.?.?.?.?.?)', 14)
  end
  return start, task_type, queue or DEFAULT_QUEUE
end

-- place_of returns the name under which tasks of a queue and a type are chosen or wait, and whether they wait apart.
local function place_of(queue, task_type)
  local serves_queue, runs_type = serves(queue, task_type)
  local lane = queue .. ' ' .. task_type
  if serves_queue and (not runs_type or lanes and (waits[lane] or left[lane])) then
    return { lane, not runs_type }
  end
  return { queue, not serves_queue }
end

-- name_of returns the name under which a task is chosen or waits, and whether nobody serves it. That is the name of its
-- lane if nobody runs its type, or the lane is known.
local function name_of(record)
  if not last_start or string.sub(record, 14, last_end) ~= last_start then
    local start, task_type, queue = start_of(record)
    last_start, last_end = start, 13 + #(start or '')
    last_place = places[start or '']
    if not last_place then -- nobody can tell who runs what has no type
      last_place = task_type and place_of(queue, task_type) or { queue, false }
      places[start or ''] = last_place
    end
  end
  return last_place[1], last_place[2]
end

-- choose takes a task.
local function choose(name, member, due, record)
  local i = #members + 1
  members[i], dues[i], records[i] = member, due, record
  left[name] = left[name] - 1
end

-- leave lets a due task wait in the set of ready tasks.
local function leave(name, member, due)
  put_later(ready_key(name), due, member)
  if not waits[name] then
    waits[name], oldest[name] = true, tonumber(due)
    add_later(backlog_key(), name)
  elseif oldest[name] then
    oldest[name] = math.min(oldest[name], tonumber(due))
  end
end

-- has_place returns whether tasks may wait under a name that nobody serves: others wait there, or there are not too
-- many names.
local function has_place(name)
  if apart[name] == nil then
    local known = redis.call('EXISTS', ready_key(name)) == 1
    listed = listed or redis.call('SCARD', backlog_key())
    apart[name] = known or listed < NAMES_LIMIT
    if apart[name] then
      add_later(backlog_key(), name)
      listed = listed + (known and 0 or 1)
    end
  end
  return apart[name]
end

-- leave_apart lets a due task wait that nobody can run; on the wheel, for a while, if it has no place.
local function leave_apart(name, member, due)
  if has_place(name) then
    return put_later(ready_key(name), due, member)
  end
  put_off = put_off + 1
  put_later(wheel, int(now + PUT_OFF_FOR + put_off * 100), member) -- not all at once
end

-- choose_or_leave takes a due task, or leaves it if there is no room for it, others wait that may have been due before, or most are chosen.
local function choose_or_leave(name, member, due, record, most)
  left[name] = left[name] or quota
  local is_first = not waits[name] or oldest[name] and tonumber(due) < oldest[name]
  if left[name] > 0 and is_first and #members < most then
    return choose(name, member, due, record)
  end
  leave(name, member, due)
end

-- choose_ready takes up to n tasks that wait under a name, n > 0: the first one, and those that were due by then; but none that was due after
-- the earliest one on the wheel. Those that belong to a lane go there.
local function choose_ready(name, n, upto, earliest)
  local first = redis.call('ZRANGE', ready_key(name), 0, n, 'WITHSCORES')
  local names = {}
  for i = 1, math.min(#first, 2 * n), 2 do
    local due = tonumber(first[i + 1])
    if due > earliest or i > 1 and due > upto then
      break
    end
    names[#names + 1] = first[i]
    remove_later(ready_key(name), first[i])
  end
  if #first > 2 * #names then
    oldest[name] = tonumber(first[2 * #names + 2])
  else
    redis.call('SREM', backlog_key(), name)
    waits[name] = nil
  end
  local found = #names > 0 and redis.call('HMGET', defs_key(), unpack(names)) or {}
  for i, member in ipairs(names) do
    local place, unserved = name, false
    if found[i] then
      place, unserved = name_of(found[i])
    end
    if unserved then
      leave_apart(place, member, first[2 * i])
    elseif place == name then
      choose(name, member, first[2 * i], found[i])
    else
      choose_or_leave(place, member, first[2 * i], found[i], limit)
    end
  end
end
