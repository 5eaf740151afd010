-- lanes: under which name a due task is chosen or waits. A name is that of a queue or, with blanks in it, of a lane: of
-- a type, of a fair key, of limits, of a reach, or of several of these.
-- includes: turn, served, closed, waiting, limits

local place_by_start = {} -- by how a record begins
-- How the last record began, where that ends, and its place: neighbours mostly begin alike.
local last_start, last_end, last_place
local last_namespace = '' -- if namespaces have limits
local by_namespace = string.find(rules, '\nnamespace:', 1, true)

-- new_place returns the place of a task and of those that begin as it does. It is not decided yet.
local function new_place(member, task_type, queue, ahead, fair, keys, reach, cost)
  return {
    task_type = task_type, queue = queue, lane = type_lane(queue, task_type), ahead = ahead, fair = fair, name = queue,
    pool = queue, apart = false, reach = reach,
    limits = rules ~= '' and task_type and limits_of(member, task_type, queue, keys, cost) or nil,
  }
end

-- place_of returns the place of a record, and adds it to a list if it is not decided yet. Records that begin alike have
-- the same one: the next five characters tell which field follows.
local function place_of(member, record, undecided)
  local namespace = by_namespace and string.match(member, '^[^:]*') or ''
  if not last_start or namespace ~= last_namespace or string.sub(record, 14, last_end) ~= last_start then
    local task_type, queue, ahead, fair, stop, keys, reach, cost = read_start(record)
    last_start, last_end, last_namespace = task_type and string.sub(record, 14, stop + 5), stop + 5, namespace
    local start = namespace .. (last_start or '')
    last_place = place_by_start[start]
    if not last_place then
      last_place = new_place(member, task_type, queue, ahead, fair, keys, reach, cost)
      undecided[#undecided + 1], place_by_start[start] = last_place, last_place
    end
  end
  return last_place
end

-- decide decides under which name the tasks of a place are chosen or wait, and whether they wait apart, as nobody
-- serves it. That is the name of their lane if nobody runs their type, or the lane is known. Nobody can tell who runs
-- what has no type. If they have a fair key, limits or a reach, they wait in a lane of these, and the pool is the name
-- under which they would wait without.
local function decide(place)
  if not place.task_type then
    return
  end
  local serves_queue, runs_type = serves(place.queue, place.task_type)
  local lane = place.lane
  if serves_queue and (place.reach or not runs_type or waits[lane] or left[lane] or is_closed(lane)) then
    place.pool, place.apart = lane, not runs_type
  else
    place.apart = not serves_queue
  end
  place.name = lane_name(place.pool, place.fair, place.limits, serves_queue and place.reach)
end

-- add_names adds the names under which the tasks of a place may wait to a list. If their type has a lane with a quota,
-- they wait there, or apart, and not with their queue.
local function add_names(names, place)
  for _, name in ipairs(names_of(place.queue, place.task_type, place.fair, place.limits, place.reach)) do
    if name ~= place.queue or not left[place.lane] then
      add_name(names, name)
    end
  end
end

-- places_of returns the places of tasks with those names and records, by their number there: name is the one under
-- which a task is chosen or waits, ahead how many ms its rank is before it is due, and apart says that nobody serves
-- it. A record may be lacking. With one command, it looks for the names of these and for further ones, if there are
-- any.
local function places_of(tasks, records, further)
  local of, undecided, names = {}, {}, further or {}
  for i, member in ipairs(tasks) do
    of[i] = records[i] and place_of(member, records[i], undecided)
  end
  for _, place in ipairs(undecided) do
    add_names(names, place)
  end
  look_for(names)
  for _, place in ipairs(undecided) do
    decide(place)
  end
  return of
end
