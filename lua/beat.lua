-- beat: records that a node is alive, and reads all nodes.
-- includes: clock, number
-- keys:
--   nodes  HASH
-- args:
--   id       node
--   entry    text  the node's description of itself
--   dead     ms    without a beat after which the node counts as dead
--   keep     ms    without a beat after which an entry is removed
--   members  channel
--   news     text  a change of the node to publish, "" for none
-- reply:
--   now     time
--   joined  flag  the node was not on the list before, or dead
--   nodes   hash  by id: "<ms of the last beat> <the node's description of itself>"
-- refuses: nothing
-- repeat: harmless: it records a later beat. The change may be published twice, and joined is false in the second reply
-- full: works
local all = redis.call('HGETALL', nodes)
local own = int(now) .. ' ' .. entry
local seen, outdated, joined = { id, own }, {}, 1
for i = 1, #all, 2 do
  local age = now - (tonumber(string.match(all[i + 1], '^%d+')) or 0)
  if all[i] == id then
    joined = age > dead and 1 or 0
  elseif age > keep then
    outdated[#outdated + 1] = all[i]
  else
    seen[#seen + 1] = all[i]
    seen[#seen + 1] = all[i + 1]
  end
end
if joined == 1 then
  news = 'join'
end

redis.call('HSET', nodes, id, own)
for _, gone in ipairs(outdated) do
  redis.call('HDEL', nodes, gone)
end
if news ~= '' then
  redis.call('PUBLISH', members, news .. ' ' .. id)
end
return { now, joined, seen }
