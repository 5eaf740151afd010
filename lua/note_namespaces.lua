-- note_namespaces: records submissions to namespaces, and removes the namespaces with the oldest submissions beyond a limit.
-- includes: clock, number
-- keys:
--   namespaces  ZSET
-- args:
--   names  text*  of the namespaces
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: it records a later time
-- full: refused
for name in names() do
  redis.call('ZADD', namespaces, int(now), name)
end
redis.call('ZREMRANGEBYRANK', namespaces, 0, -NAMESPACES_LIMIT - 1)
return {}
