-- lanes: under which name a due task is chosen or waits. A name is that of a queue or, with a blank in it, of a lane.
-- includes: definition, served

local left, waits = {}, {} -- by name: tasks that may be taken still, and whether some wait
local lanes = false -- whether any lane is known

-- note_name notes a name of which tasks wait, or which has a quota.
local function note_name(name)
  lanes = lanes or string.find(name, ' ', 1, true) ~= nil
  return name
end

local places = {} -- names, and whether nobody serves them, by how a record begins
-- How the last record began, where that ends, and its place: neighbours mostly begin alike.
local last_start, last_end, last_place

-- start_of returns how a record begins, up to the name of the queue or, if that is the default one, so far that no
-- other queue can follow; its type; and its queue, as queue_of does. The first two are nil if it cannot be read.
local function start_of(record)
  local start, task_type, queue = string.match(record, '^({"type":"([^"]*)","queue":"([^"]*)")', 14)
  if not start then
    start, task_type = string.match(record, '^({"type":"([^"]*)".?.?.?.?.?.?.?.?)', 14)
  end
  if not queue and start and string.sub(start, -8) == ',"queue"' then -- which is no text
    start, task_type = nil, nil
  end
  return start, task_type, queue and string.find(queue, '^[%w._-]+$') and queue or DEFAULT_QUEUE
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
