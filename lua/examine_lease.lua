-- examine_lease: finds a lease that never expires, and lets it expire if it is asked to, after the time that its holder asked for: if the holder
-- lives, it renews the lease before.
-- includes: number, findings, term
-- keys:
--   lease  STRING
-- args:
--   checks  text  those that are wanted, each between blanks
--   repair  flag
--   ttl     ms    after which a lease expires of whose holder nothing says that
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: the lease expires already
-- full: works
local newest = redis.call('GET', lease)
if newest and redis.call('PTTL', term_of(newest)) == -1 and report(newest, 'lease-unlimited', 'never expires') then
  redis.call('PEXPIRE', term_of(newest), int(tonumber(redis.call('GET', term_of(newest))) or ttl))
end
return { found }
