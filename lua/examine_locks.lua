-- examine_locks: finds locks that never expire, that cannot be read, or that are not in the list of locks, and entries
-- of the list for locks that nobody holds; and repairs them if it is asked to.
-- includes: clock, number, findings
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

-- is_whole returns whether a lock has all that it needs.
local function is_whole(member)
  for _, number in ipairs(redis.call('HMGET', lock_key(member), 'fence', 'since', 'expires', 'ttl')) do
    if not string.find(number or '', '^%d+$') or tonumber(number) < 1 then
      return false
    end
  end
  return redis.call('HEXISTS', lock_key(member), 'holder') == 1
end

-- put_aside keeps a lock where nobody looks for it.
local function put_aside(member)
  local kept = aside_key(int(now) .. ':lock:' .. member)
  redis.call('RENAME', lock_key(member), kept)
  redis.call('PEXPIRE', kept, ASIDE_KEPT)
  redis.call('ZREM', locks, member)
end

for member in members() do
  local left, listed = redis.call('PTTL', lock_key(member)), redis.call('ZSCORE', locks, member)
  local held = left ~= -2
  if held and not is_whole(member) then
    if report(member, 'lock-unreadable', 'cannot be read') then
      put_aside(member)
    else
      pass_over(member, 'cannot be read', { 'lock-unlimited', 'lock-drift' })
    end
    held, listed = false, false
  end
  if held and left == -1 and report(member, 'lock-unlimited', 'never expires') then
    redis.call('PEXPIRE', lock_key(member), redis.call('HGET', lock_key(member), 'ttl'))
  end
  if held and not listed and report(member, 'lock-drift', 'is held, and not in ' .. locks) then
    redis.call('ZADD', locks, redis.call('HGET', lock_key(member), 'expires'), member)
  end
  if not held and listed and tonumber(listed) > now + SLACK and
      report(member, 'lock-drift', 'is not held, and in ' .. locks) then
    redis.call('ZREM', locks, member)
  end
end
return { found }
