-- choice: chooses due tasks of queues.
-- includes: changes, definition

local members, dues, records = {}, {}, {} -- of the chosen tasks
local left, waits, oldest = {}, {}, {} -- by queue

-- choose takes a task for a queue.
local function choose(queue, member, due, record)
  local i = #members + 1
  members[i], dues[i], records[i] = member, due, record
  left[queue] = left[queue] - 1
end

-- choose_ready takes up to n tasks that wait for a queue, n > 0: the first one, and those that were due by then.
local function choose_ready(queue, n, upto)
  local first = redis.call('ZRANGE', ready_key(queue), 0, n, 'WITHSCORES')
  local names = {}
  for i = 1, math.min(#first, 2 * n), 2 do
    if i > 1 and tonumber(first[i + 1]) > upto then
      break
    end
    names[#names + 1] = first[i]
    remove_later(ready_key(queue), first[i])
  end
  local found = #names > 0 and redis.call('HMGET', defs_key(), unpack(names)) or {}
  for i, member in ipairs(names) do
    choose(queue, member, first[2 * i], found[i])
  end
  if #first > 2 * #names then
    oldest[queue] = tonumber(first[2 * #names + 2])
  else
    redis.call('SREM', backlog_key(), queue)
    waits[queue] = nil
  end
end
