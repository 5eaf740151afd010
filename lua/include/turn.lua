-- turn: where a task waits that is due, and when it has its turn there. In a set of ready tasks, its score is its rank:
-- the time when it was due, or for priority n a time n steps earlier, plus n sixteenths of a ms, which tell n. Tasks of
-- a fair key wait in a lane of their own, whose name ends with the key and its weight. Tasks with limits do so, too:
-- its name ends with "*" or the fair key, the weight, and the limits. Tasks that say where they may run wait in a lane
-- of their type, whose name ends with that, their reach.
-- includes: definition, state

-- read_start reads the beginning of a record, from its 14th character on. It returns the type, nil if that or the queue
-- cannot be read; the queue; how many ms its rank is before it is due; the fair key and its weight, with a blank
-- between, nil for none; where all that ends; the limit keys; the reach; and the cost, each nil for none.
local function read_start(record)
  local task_type, queue, at = read_type_and_queue(record, 14)
  if not task_type then
    return nil, queue, 0, nil, 13, nil, nil
  end
  local priority, behind_priority = string.match(record, '^,"priority":(%d)()', at)
  at = behind_priority or at
  local key, behind_key = string.match(record, '^,"fair_key":"([%w._-]+)"()', at)
  at = behind_key or at
  local weight, behind_weight = string.match(record, '^,"fair_weight":(%d+)()', at)
  local fair = key and key .. ' ' .. (weight or '1')
  at = behind_weight or at
  local limit_keys, behind_keys = string.match(record, '^,"limit_key":"([%w._,-]+)"()', at)
  at = behind_keys or at
  local cost, behind_cost = string.match(record, '^,"cost":(%d+)()', at)
  at = behind_cost or at
  local reach, behind_reach = string.match(record, '^,"reach":"([^" ]+)"()', at)
  local ahead = (priority or 0) * (PRIORITY_STEP - 1 / PRIORITY_MARKS)
  return task_type, queue, ahead, fair, (behind_reach or at) - 1, limit_keys, reach, cost
end

-- rank_of returns the rank of a task that is due at a time. Both are text.
local function rank_of(due, ahead)
  return ahead == 0 and due or string.format('%.4f', tonumber(due) - ahead)
end

-- due_of_rank returns when a task with that rank is due. Both are text.
local function due_of_rank(rank)
  if not string.find(rank, '.', 1, true) then
    return rank
  end
  local mark = tonumber(rank) % 1
  return string.format('%.0f', tonumber(rank) - mark + mark * PRIORITY_MARKS * PRIORITY_STEP)
end

-- lane_name returns the name of the lane of a fair key, of limits and of a reach within a queue, or within the lane of
-- a type. Each is nil for none.
local function lane_name(pool, fair, limits, reach)
  if not fair and not limits and not reach then
    return pool
  end
  local lane = pool .. (string.find(pool, ' ', 1, true) and ' ' or ' * ') .. (fair or '* 1')
  lane = lane .. ((limits or reach) and ' ' .. (limits or '*') or '')
  return reach and lane .. ' ' .. reach or lane
end

-- type_lane returns the name of the lane of a type: where its tasks wait instead of with the others of their queue,
-- while these may be handed over and those of the type may not. Neither a queue's name nor a type has a blank.
local function type_lane(queue, task_type)
  return queue .. ' ' .. (task_type or '')
end

-- names_of returns the names under which a task may wait: those of its lanes and of its queue.
local function names_of(queue, task_type, fair, limits, reach)
  local lane, names = type_lane(queue, task_type), {}
  if reach then
    names[1], names[2] = lane_name(lane, fair, nil, reach), limits and lane_name(lane, fair, limits, reach)
  end
  if limits then
    names[#names + 1], names[#names + 2] = lane_name(queue, fair, limits), lane_name(lane, fair, limits)
  end
  for _, name in ipairs(fair and { lane_name(queue, fair), lane_name(lane, fair) } or {}) do
    names[#names + 1] = name
  end
  names[#names + 1], names[#names + 2] = queue, lane
  return names
end
