-- renew_lease: extends a lease.
-- includes: number, refuse, term
-- keys:
--   lease  STRING
-- args:
--   fence  fence  that the caller got with the lease
--   ttl    ms     from now after which the lease expires
-- reply: nothing
-- refuses:
--   LOST  the lease has expired; the detail is the newest fence, "" if there is none
-- repeat: harmless: the ttl starts again
-- full: works
if redis.call('PEXPIRE', term_of(fence), int(ttl)) == 0 then
  return refuse('LOST', redis.call('GET', lease) or '')
end
return {}
