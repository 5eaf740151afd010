-- examine_locks: finds locks that never expire, or that are not in the list of locks, and entries of the list for locks that nobody holds;
-- and repairs them if it is asked to.
-- includes: clock, findings
-- keys:
--   locks  ZSET  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   members  text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local SLACK = 1000 -- ms by which an entry may outlive its lock

for member in members() do
  local left, listed = redis.call('PTTL', lock_key(member)), redis.call('ZSCORE', locks, member)
  local held = left ~= -2
  if left == -1 and report(member, 'lock-unlimited', 'never expires') then
    redis.call('PEXPIRE', lock_key(member), redis.call('HGET', lock_key(member), 'ttl') or SLACK)
  end
  if held and not listed and report(member, 'lock-drift', 'is held, and not in ' .. locks) then
    redis.call('ZADD', locks, redis.call('HGET', lock_key(member), 'expires') or now, member)
  end
  if not held and listed and tonumber(listed) > now + SLACK and report(member, 'lock-drift', 'is not held, and in ' .. locks) then
    redis.call('ZREM', locks, member)
  end
end
return { found }
