-- examine_names: finds ids of deleted tasks that are remembered and would never be forgotten, because they are not in the order in which
-- they go, and puts them there if it is asked to.
-- includes: findings
-- keys:
--   remembered        HASH
--   remembered_order  LIST
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   members  text*
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
for member in members() do
  if redis.call('HEXISTS', remembered, member) == 1 and not redis.call('LPOS', remembered_order, member) and
      report(member, 'id-never-forgotten', 'is remembered, and not in ' .. remembered_order) then
    redis.call('RPUSH', remembered_order, member)
  end
end
return { found }
