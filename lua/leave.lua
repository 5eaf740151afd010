-- leave: a node that stops takes itself off the list.
-- keys:
--   1 nodes  HASH  node id -> "<ms of the last beat> <what the node says of itself>"
-- args:
--   1 id       of the node
--   2 channel  where to tell of it
-- reply: 1 if the node was on the list, else 0
-- refuses: nothing
-- repeat: harmless: the node is not on the list any more, and nothing is told.

local nodes = KEYS[1]
local id, channel = ARGV[1], ARGV[2]

if redis.call('HDEL', nodes, id) == 0 then
  return 0
end

redis.call('PUBLISH', channel, 'leave ' .. id)
return 1
