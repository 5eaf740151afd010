-- put_aside: moves tasks of an older layout that cannot be read from the sorted sets of their partition to one of their own,
-- because what works on those sets does not find the tasks. Everything else that belongs to them stays.
-- includes: nothing
-- keys:
--   unconverted  ZSET  the script makes further keys of the same partition
-- args:
--   members  text*
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the tasks are in no other set any more
-- full: refused
for member in members() do
  local namespace = string.match(member, '^[^:]*')
  local sets = { wheel_key, queued_key, running_key, expiry_key }
  for _, state in ipairs({ 'succeeded', 'failed', 'cancelled', 'skipped' }) do
    sets[#sets + 1] = index_key(namespace, state)
  end
  for _, set in ipairs(sets) do
    local score = redis.call('ZSCORE', set, member)
    if score then
      redis.call('ZADD', unconverted, 'NX', score, member)
      redis.call('ZREM', set, member)
    end
  end
  local schedule_ref, name = string.match(member, '^([^@]+)@(.+)$')
  if schedule_ref then
    redis.call('ZREM', live_key(schedule_ref), name) -- it will never end
  end
end
return {}
