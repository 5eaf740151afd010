-- set_limit: sets what a limit allows, or deletes it.
-- includes: clock, number, refuse, tell
-- keys:
--   rules  HASH
-- args:
--   name     text     of the limit
--   rule     text     what it allows, as JSON; "" to delete it
--   read     text     what the caller has read, on which its change is based; "" for no limit; "*" for a change that is
--     based on nothing
--   most     number   of limits that there may be
--   by       text     who sets it, "" if nobody knows
--   leaders  channel
--   changes  channel
-- reply:
--   before  text  what it allowed before; "" if there was none
-- refuses:
--   CHANGED  the limit is no longer as the caller has read it
--   LIMIT  there are as many limits as there may be; the detail is their number
-- repeat: harmless: the limit allows that already
-- full: works
local before = redis.call('HGET', rules, name) or ''
if read ~= '*' and read ~= before and rule ~= before then
  return refuse('CHANGED')
end
if rule ~= '' and before == '' and redis.call('HLEN', rules) >= most then
  return refuse('LIMIT', int(most))
end

if rule ~= '' then
  redis.call('HSET', rules, name, rule)
else
  redis.call('HDEL', rules, name)
end
if rule ~= before then
  redis.call('PUBLISH', leaders, 'limits')
  tell({ type = rule == '' and 'limit.deleted' or 'limit.set', limit_name = name, at = int(now), by = by })
end
return { before }
