-- leave: removes a node that stops from the list of nodes.
-- includes: clock, number
-- keys:
--   nodes  HASH
-- args:
--   id       node
--   members  channel
-- reply:
--   left  flag  false if the node was not on the list
-- refuses: nothing
-- repeat: harmless: the node is not on the list any more, and nothing is published
-- full: works
if redis.call('HDEL', nodes, id) == 0 then
  return { 0 }
end

redis.call('PUBLISH', members, 'leave ' .. id .. ' ' .. int(now))
return { 1 }
