-- beat: a node says that it lives, and learns of all others.
-- includes: clock, number
-- keys:
--   nodes  HASH
-- args:
--   id       node
--   entry    text  what the node says of itself
--   dead     ms    without a beat after which the node counts as dead
--   keep     ms    without a beat after which any entry goes
--   members  channel
--   news     text  a word to tell of the node, "" for none
-- reply:
--   now     time
--   joined  flag  the node was absent or dead before
--   nodes   hash  by id: "<ms of the last beat> <what the node says of itself>"
-- refuses: nothing
-- repeat: harmless: the beat counts anew. News may be told twice, and the second reply says that the node was there before
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
