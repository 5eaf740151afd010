-- examine_outbox: finds ends in the outbox whose tasks do not exist, so that nothing can follow them, and removes them
-- if it is asked to.
-- includes: findings
-- keys:
--   defs    HASH
--   outbox  ZSET
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   entries  text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
for entry in entries() do
  local member = string.match(entry, '^end (%S+) %d+ %a+$')
  if member and redis.call('ZSCORE', outbox, entry) and redis.call('HEXISTS', defs, member) == 0 and
      report(member, 'task-leftovers', 'does not exist, and its end is in ' .. outbox) then
    redis.call('ZREM', outbox, entry)
  end
end
return { found }
