-- beat: a node says that it lives, and learns of all others.
-- keys:
--   1 nodes  HASH  node id -> "<ms of the last beat> <what the node says of itself>"
-- args:
--   1 id       of the node
--   2 entry    what the node says of itself
--   3 dead     ms without a beat after which the node counts as dead
--   4 keep     ms without a beat after which any entry goes
--   5 channel  where to tell of news
--   6 news     a word to tell of the node, "" for none
-- reply: {ms now, 1 if the node was absent or dead before, else 0, {id, "<ms> <entry>", ...}}
-- refuses: nothing
-- repeat: harmless: the beat counts anew. News may be told twice, and the second reply says that the node
--   was there before.

local nodes = KEYS[1]
local id, entry, dead, keep = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, news = ARGV[5], ARGV[6]

local now = now_ms()
local all = redis.call('HGETALL', nodes)

local mine = int(now) .. ' ' .. entry
local seen, outdated, joined = { id, mine }, {}, 1
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

redis.call('HSET', nodes, id, mine)
for _, gone in ipairs(outdated) do
  redis.call('HDEL', nodes, gone)
end
if news ~= '' then
  redis.call('PUBLISH', channel, news .. ' ' .. id)
end
return { now, joined, seen }
