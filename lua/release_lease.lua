-- release_lease: releases a lease before it expires, and publishes that it is free.
-- includes: term
-- keys:
--   lease  STRING
-- args:
--   fence    fence  that the caller got with the lease
--   channel  text   to publish on, "" for none
--   message  text   to publish
-- reply:
--   released  flag  false if the caller did not hold the lease any more
-- refuses: nothing
-- repeat: harmless: the caller does not hold the lease any more
-- full: works
if redis.call('DEL', term_of(fence)) == 0 then
  return { 0 }
end

if channel ~= '' then
  redis.call('PUBLISH', channel, message)
end
return { 1 }
