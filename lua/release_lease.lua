-- release_lease: releases a lease before it expires, and publishes that it is free.
-- includes: nothing
-- keys:
--   lease  STRING
-- args:
--   fence    fence  value of the lease while the caller holds it
--   channel  text   to publish on, "" for none
--   message  text   to publish
-- reply:
--   released  flag  false if the caller did not hold the lease any more
-- refuses: nothing
-- repeat: harmless: the caller does not hold the lease any more
if redis.call('GET', lease) ~= fence then
  return { 0 }
end

redis.call('DEL', lease)
if channel ~= '' then
  redis.call('PUBLISH', channel, message)
end
return { 1 }
