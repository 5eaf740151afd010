-- beat: records that a node is alive, and reads the nodes that live, or died a moment ago. Of those whose last beat is in the future, as
-- Redis's clock was set back, it is now.
-- includes: clock, number
-- keys:
--   nodes  HASH
-- args:
--   id       node
--   entry    text  the node's description of itself, which may begin with the sequence number of the beat
--   dead     ms    without a beat after which the node counts as dead; others say their own time
--   missed   number  beats that a node must have missed to count as dead
--   keep     ms    without a beat after which an entry is removed
--   members  channel
--   news     text  a change of the node to publish, "" for none
-- reply:
--   now     time
--   before  time  of the last beat that Redis knew of the node, alive or dead; none if it knew none
--   known   number  the highest sequence number of the beats that Redis knew of the node; 0 if none
--   joined  flag  the node was not on the list before, or dead
--   nodes   hash  those nodes, by id: "<ms of the last beat> <the node's description of itself>"
-- refuses: nothing
-- repeat: harmless: it records a later beat. The change may be published twice, and joined is false in the second reply. The sequence number of
--   an entry only grows, also if beats overtake each other
-- full: works

local SEQUENCE = '^{"sequence":(%d+)'

local all = redis.call('HGETALL', nodes)
local seen, outdated, early, gone, ages, before, known, joined = {}, {}, {}, {}, {}, false, 0, 1
for i = 1, #all, 2 do
  local at, description = string.match(all[i + 1], '^(%d*) ?(.*)$')
  local age = now - (tonumber(at) or 0)
  if all[i] == id then
    before, joined = tonumber(at) or 0, age > dead and 1 or 0
    known = tonumber((string.match(description, SEQUENCE))) or 0
  elseif age > keep then
    outdated[#outdated + 1] = all[i]
  elseif age <= dead or age <= missed * (tonumber((string.match(all[i + 1], ':(%d+)}$', -12))) or 0) then -- beat_ms, its last field
    seen[#seen + 1] = all[i]
    seen[#seen + 1] = age < 0 and int(now) .. ' ' .. description or all[i + 1]
    early[#early + 1] = age < 0 and #seen or nil
  elseif age > DEAD_SPARED then -- before, they may only have been cut off, and come back
    gone[#gone + 1] = all[i]
    ages[#ages + 1] = age
  end
end
if #gone > DEAD_LIMIT then
  local sorted = {}
  for i, age in ipairs(ages) do
    sorted[i] = age
  end
  table.sort(sorted)
  for i, other in ipairs(gone) do
    if ages[i] > sorted[DEAD_LIMIT] then
      outdated[#outdated + 1] = other
    end
  end
end
if joined == 1 then
  news = 'join'
end

if known > (tonumber((string.match(entry, SEQUENCE))) or 0) then
  entry = string.gsub(entry, SEQUENCE, '{"sequence":' .. int(known))
end
seen[#seen + 1] = id
seen[#seen + 1] = int(now) .. ' ' .. entry
redis.call('HSET', nodes, id, seen[#seen])
for _, i in ipairs(early) do
  redis.call('HSET', nodes, seen[i - 1], seen[i])
end
for i = 1, math.min(#outdated, DEAD_REMOVED) do -- the others follow with the next beats
  redis.call('HDEL', nodes, outdated[i])
end
if news ~= '' then
  redis.call('PUBLISH', members, news .. ' ' .. id .. ' ' .. int(now))
end
return { now, before, known, joined, seen }
