-- note_namespaces: work was submitted to namespaces. Of those that are remembered, the ones with the oldest submissions go if
-- there are too many.
-- includes: clock, number
-- keys:
--   namespaces  ZSET
-- args:
--   names  text*
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the time is a little later
for name in names() do
  redis.call('ZADD', namespaces, int(now), name)
end
redis.call('ZREMRANGEBYRANK', namespaces, 0, -NAMESPACES_LIMIT - 1)
return {}
