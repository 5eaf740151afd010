-- change: replaces the definition of a scheduled task, and its due time.
-- includes: clock, number, refuse, events, wheel
-- keys:
--   task   HASH
--   wheel  ZSET
-- args:
--   member  member
--   before  text     the definition that the caller read
--   def     text     the new definition
--   run_at  time     none to keep the due time, or if delay is given
--   delay   maybe_ms  from now; none to keep the due time, or if run_at is given
--   events  channel
--   wake    channel
-- reply:
--   task  hash  the task as it is now
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not scheduled; the detail is its state
--   CHANGED    the definition is neither before nor def any more
-- repeat: harmless: the second run finds the new definition and writes it again; a delay counts from the second run
local state, known, original, attempt = unpack(redis.call('HMGET', task, 'state', 'def', 'original', 'attempt'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state ~= 'scheduled' then
  return refuse('STATE', state)
end
if known ~= before and known ~= def then
  return refuse('CHANGED', member)
end

local due = redis.call('ZSCORE', wheel, member)
if run_at then
  due = math.max(run_at, now)
elseif delay then
  due = now + delay
end
if not original then
  redis.call('HSET', task, 'original', redis.sha1hex(before))
end
redis.call('HSET', task, 'def', def, 'due', int(due))
announce('updated', member, 'scheduled', attempt or '0', '', def, ',"due":' .. int(due))
put_on_wheel(member, due)
return { redis.call('HGETALL', task) }
