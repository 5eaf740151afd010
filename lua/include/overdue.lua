-- overdue: reads the due tasks of the wheel for a claim. After an outage there can be so many that it takes seconds until all have left the
-- wheel. Tasks that have just become due do not wait for that: some of the newest are read with the oldest.
-- needs: key wheel, arg limit
-- includes: clock, number

local BEHIND = 1000 -- ms: the leader is behind if it is that late after as many tasks as a claim reads
local newest = math.floor(limit / 8) -- so many of the newest at most

-- read_due returns due tasks and when each was due (as text), and the number of the oldest ones, which come first. While the leader is behind,
-- the newest follow, in order, and others may lie between them.
local function read_due()
  local names, times = {}, {}
  local first = redis.call('ZRANGE', wheel, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  for i = 1, #first, 2 do
    names[#names + 1], times[#times + 1] = first[i], first[i + 1]
  end
  local number = #names
  if number < limit or now - tonumber(times[number]) <= BEHIND then
    return names, times, number
  end
  local last = redis.call('ZRANGE', wheel, int(now), '(' .. times[number], 'BYSCORE', 'REV', 'LIMIT', 0, newest, 'WITHSCORES')
  for i = #last - 1, 1, -2 do
    names[#names + 1], times[#times + 1] = last[i], last[i + 1]
  end
  return names, times, number
end
