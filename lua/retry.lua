-- retry: puts a task that has ended back on the wheel, due now, with its full number of attempts again.
-- includes: clock, number, refuse, events, wheel, scheduled_tick
-- keys:
--   task    HASH
--   index   ZSET  of the state in which the task is
--   expiry  ZSET
--   wheel   ZSET
-- args:
--   member    member
--   state     state    of the task, to which the index belongs
--   attempts  number   how many further attempts the task may make
--   tick      time     of the tick whose task this is, which its schedule then counts as live again; none for other tasks
--   events    channel
--   wake      channel
-- reply:
--   task  hash  the task as it is now
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is in another state; the detail is that state
-- repeat: refused with STATE, because the first run scheduled the task
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
