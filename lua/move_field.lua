-- move_field: moves a field of a hash that nobody can read to another hash, where Redis keeps it for a while. It
-- leaves a field alone that has another value by now.
-- includes: nothing
-- keys:
--   hash  HASH  the script makes one further key, on the same server
-- args:
--   kept   text  the key of the other hash
--   field  text
--   value  text  the one that nobody can read
-- reply:
--   moved  flag
-- refuses: nothing
-- repeat: harmless: it moves nothing
-- full: refused
if redis.call('HGET', hash, field) ~= value then
  return { 0 }
end
redis.call('HSET', kept, field, value)
redis.call('PEXPIRE', kept, ASIDE_KEPT)
redis.call('HDEL', hash, field)
return { 1 }
