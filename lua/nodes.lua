-- nodes: everybody who is on the list of nodes, and what time it is. It changes nothing.
-- keys:
--   1 nodes  HASH  node id -> "<ms of the last beat> <what the node says of itself>"
-- args: none
-- reply: {ms now, {id, "<ms> <entry>", ...}}
-- refuses: nothing
-- repeat: harmless: it only reads.

local nodes = KEYS[1]

return { now_ms(), redis.call('HGETALL', nodes) }
