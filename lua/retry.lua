-- retry: a task that has ended waits on the wheel again, due now, with as many attempts as it had at first.
-- includes: clock, number, refuse, events, wheel, scheduled_tick
-- keys:
--   task    HASH
--   index   ZSET  the one of the state the task is in
--   expiry  ZSET
--   wheel   ZSET
-- args:
--   member    member
--   state     state    the state it is in, to which the index belongs
--   attempts  number   how many it may make, counted on from those it has made
--   tick      time     of a tick's task, which its schedule then counts as not ended again; none for any other task
--   events    channel
--   wake      channel
-- reply:
--   task  hash  the task as it is now
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task has not ended, or ended otherwise; the detail is its state
-- repeat: refused with STATE scheduled (or whatever came after): the first run did it
local current, attempt, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'def'))
if not current then
  return refuse('NOT_FOUND', member)
end
if current ~= state then
  return refuse('STATE', current)
end

attempt = attempt or '0'
redis.call('HSET', task, 'state', 'scheduled', 'due', int(now), 'max_attempts', int(attempt + attempts))
redis.call('HDEL', task, 'finished', 'cancel', 'result', 'error', 'progress', 'first_due')
redis.call('ZREM', index, member)
redis.call('ZREM', expiry, member)
if tick then
  live_again(member, tick)
end
announce('scheduled', member, 'scheduled', attempt, '', def, ',"due":' .. int(now))
put_on_wheel(member, now)
return { redis.call('HGETALL', task) }
