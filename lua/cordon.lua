-- cordon: keeps the workers of a node, or of all nodes of a name, from taking tasks. It removes cordons whose time is
-- over.
-- includes: clock, number, refuse
-- keys:
--   cordons  HASH
-- args:
--   node     text    its id, or the name
--   lasts    ms      how long the cordon lasts; 0 for until uncordon
--   about    text    who asks for it and why, as JSON
--   limit    number  how many cordons there may be
--   members  channel
-- reply:
--   since  time
-- refuses:
--   FULL  there are as many other cordons as there may be; the detail is the limit
-- repeat: harmless: it is written again, with a later time
-- full: works
local all = redis.call('HGETALL', cordons)
local ended, others = {}, 0
for i = 1, #all, 2 do
  local over = tonumber(string.match(all[i + 1], '^%d+ (%d+) ') or '0')
  if over > 0 and over <= now then
    ended[#ended + 1] = all[i]
  elseif all[i] ~= node then
    others = others + 1
  end
end
if others >= limit then
  return refuse('FULL', int(limit))
end

for _, name in ipairs(ended) do
  redis.call('HDEL', cordons, name)
end
local over = lasts > 0 and int(now + lasts) or '0'
redis.call('HSET', cordons, node, int(now) .. ' ' .. over .. ' ' .. about)
redis.call('PUBLISH', members, 'cordoned ' .. node .. ' ' .. int(now))
return { now }
