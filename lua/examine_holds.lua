-- examine_holds: finds tasks that hold a slot of a limit though their states do not say so, and has them hold none if
-- it is asked to. The leader hears of the slots that become free.
-- includes: findings, unheld, holders
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   limit    text
--   wake     channel
--   members  text*  what holds a slot of it, as holder.lua says
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
for holder in members() do
  local member, number = task_of(holder)
  local text, why = redis.call('HGET', states_key, member), nil
  if redis.call('SISMEMBER', holds_key(limit), holder) == 0 then
    text = nil -- it has ended since
  elseif redis.call('HEXISTS', defs, member) == 0 then
    why = 'does not exist'
  elseif not text then
    pass_over(member, 'has no state', { 'slot-leaked' })
  elseif not holds_slot(text, limit, number) then
    why = 'is ' .. string.match(text, '^%a*') .. (number > 1 and ' and needs fewer slots' or ' without this limit')
  end
  if why and report(member, 'slot-leaked', why .. ', and is in ' .. holds_key(limit)) then
    free_slots(holder, limit)
  end
end
return { found }
