-- moved: tasks that were given up so that another node goes on. Until such a task is claimed, the last field of its
-- state says who asked for that, to which node the task is to go, and which one has given it up. It waits in a lane of
-- its own: the reach there begins with these nodes. Its score on the wheel is not a whole number, so that a claim looks
-- at the states of no others.
-- includes: number, turn, state

local away = {} -- the functions: a script has at most 200 locals

-- reach returns where a task may run that was given up; nil for any other one. reach is its own, nil for none.
function away.reach(fields, reach)
  local to, from = string.match(fields.moving or '', '^%d+:([^:]*):[^:]*:(%S+)$')
  return from and '^' .. from .. '^' .. to .. '^' .. (reach or '')
end

-- reach_in returns the reach in the name of a lane in which tasks wait that were given up; nil for other lanes.
function away.reach_in(name)
  return string.match(name, ' (%^%S*)$')
end

-- place returns the place of a task that was given up. reach says where it may run.
function away.place(place, reach)
  return {
    task_type = place.task_type, queue = place.queue, lane = place.lane, ahead = place.ahead, fair = place.fair,
    name = lane_name(place.lane, place.fair, place.limits, reach), pool = place.lane, apart = false, reach = reach,
    limits = place.limits,
  }
end

-- is_marked returns whether a score, as text, may be that of a task that was given up.
function away.is_marked(score)
  return #score > 13 -- digits of a time (ms)
end

-- due returns when a task is due, from its score on the wheel. Both are text.
function away.due(score)
  return away.is_marked(score) and string.sub(score, -2) == '.5' and int(score + MOVED_MARK) or score
end
