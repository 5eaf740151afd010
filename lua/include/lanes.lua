-- lanes: under which name a due task is chosen or waits. A name is that of a queue or, with a blank in it, of a lane.
-- includes: definition, served, closed, waiting

local place_by_start = {} -- by how a record begins
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

-- place_of returns the place of a record, and adds it to a list if it is not decided yet.
local function place_of(record, undecided)
  if not last_start or string.sub(record, 14, last_end) ~= last_start then
    local start, task_type, queue = start_of(record)
    last_start, last_end = start, 13 + #(start or '')
    last_place = place_by_start[start or '']
    if not last_place then
      last_place = { queue = queue, task_type = task_type, name = queue, apart = false }
      undecided[#undecided + 1], place_by_start[start or ''] = last_place, last_place
    end
  end
  return last_place
end

-- decide decides under which name the tasks of a place are chosen or wait, and whether they wait apart, as nobody
-- serves it. That is the name of their lane if nobody runs their type, or the lane is known. Nobody can tell who runs
-- what has no type.
local function decide(place)
  if not place.task_type then
    return
  end
  local serves_queue, runs_type = serves(place.queue, place.task_type)
  local lane = place.queue .. ' ' .. place.task_type
  if serves_queue and (not runs_type or waits[lane] or left[lane] or is_closed(lane)) then
    place.name, place.apart = lane, not runs_type
  else
    place.apart = not serves_queue
  end
end

-- places_of returns the places of the first n records of a list, by their number there: name is the one under
-- which a task is chosen or waits, and apart says that nobody serves it. A record may be lacking. With one command, it
-- looks for the names of these and for further ones, if there are any.
local function places_of(records, n, further)
  local of, undecided, names = {}, {}, further or {}
  for i = 1, n do
    of[i] = records[i] and place_of(records[i], undecided)
  end
  for _, place in ipairs(undecided) do
    local lane = place.queue .. ' ' .. (place.task_type or '')
    add_name(names, lane)
    if not left[lane] then -- else the place is the lane, or apart
      add_name(names, place.queue)
    end
  end
  look_for(names)
  for _, place in ipairs(undecided) do
    decide(place)
  end
  return of
end
