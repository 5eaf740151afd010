-- onward: finds those of due tasks that a node has given up.
-- includes: moved, waiting

-- move_on returns the places of due tasks. It replaces those of tasks that were given up, and their times on the wheel
-- by when they are due. Where nobody serves a task, it waits as others do.
local function move_on(members, times, places)
  local names = {}
  for i = 1, #times do
    if away.is_marked(times[i]) then
      local fields = parse_state(redis.call('HGET', states_key, members[i]) or '')
      local reach = places[i] and not places[i].apart and away.reach(fields, places[i].reach)
      times[i] = away.due(times[i])
      if reach then
        places[i] = away.place(places[i], reach)
        add_name(names, places[i].name)
      end
    end
  end
  look_for(names)
  return places
end
