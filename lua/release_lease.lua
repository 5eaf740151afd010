-- release_lease: the holder of a lease gives it back before its time, and tells those who wait for it.
-- includes: nothing
-- keys:
--   lease  STRING
-- args:
--   fence    fence  the lease's value while the caller holds it
--   channel  text   where to tell, "" for nowhere
--   message  text   what to tell
-- reply:
--   released  flag  false if the lease was not the caller's any more
-- refuses: nothing
-- repeat: harmless: the lease is not the caller's any more
if redis.call('GET', lease) ~= fence then
  return { 0 }
end

redis.call('DEL', lease)
if channel ~= '' then
  redis.call('PUBLISH', channel, message)
end
return { 1 }
