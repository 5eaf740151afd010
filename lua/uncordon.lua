-- uncordon: ends the cordon of an id or a name of nodes.
-- includes: clock, number
-- keys:
--   cordons  HASH
-- args:
--   node     text  the id or the name
--   members  channel
-- reply:
--   was  flag  there was such a cordon
-- refuses: nothing
-- repeat: harmless: was is false in the second reply
-- full: works
if redis.call('HDEL', cordons, node) == 0 then
  return { 0 }
end

redis.call('PUBLISH', members, 'uncordoned ' .. node .. ' ' .. int(now))
return { 1 }
