-- archive: keeps deliveries that failed for good as dead letters, and counts them.
-- includes: clock, number, counts, archive, active
-- keys:
--   active           LIST
--   deadline         ZSET
--   archived         ZSET
--   processed_today  STRING
--   processed        STRING
--   failed_today     STRING
--   failed           STRING
-- args:
--   letters  (id text, msg text)*  msg is the delivery in asynq's encoding, with the error
-- reply:
--   archived  number  how many were active
-- refuses: nothing
-- repeat: harmless: what is not active is not archived or counted again
-- full: works
local n = 0
for id, msg in letters() do
  if let_go(id) then
    redis.call('ZREM', deadline, id)
    redis.call('ZADD', archived, int(now / 1000), id)
    redis.call('HSET', delivery_key(id), 'msg', msg, 'state', 'archived')
    redis.call('HDEL', delivery_key(id), 'pending_since') -- asynq's tools may have it wait again
    n = n + 1
  end
end
if n > 0 then
  count(processed_today, processed, n)
  count(failed_today, failed, n)
  trim_archive()
end
return { n }
