-- write_bulk: writes a bulk action, unless somebody has changed it since the caller read it.
-- includes: refuse
-- keys:
--   bulks  HASH
-- args:
--   id      text
--   before  text   as the caller read it; "" if it is new
--   after   text
--   gone    text*  ids of others to remove, which have ended
-- reply: nothing
-- refuses:
--   CHANGED  it is not as the caller read it
-- repeat: harmless: it is as the first run has written it
-- full: works
local stored = redis.call('HGET', bulks, id) or ''
if stored ~= before and stored ~= after then
  return refuse('CHANGED', id)
end
for other in gone() do
  redis.call('HDEL', bulks, other)
end
redis.call('HSET', bulks, id, after)
return {}
