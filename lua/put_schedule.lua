-- put_schedule: creates a schedule, or replaces its definition.
-- The leader plans its ticks at once: ticks up to asked are decided by the old definition, later ticks by the new one.
-- includes: number, refuse, look, tick_queue, tell
-- keys:
--   schedule   HASH
--   history    LIST
--   schedules  ZSET
--   ticks      ZSET
-- args:
--   member   member
--   base     number  the revision to replace, 0 to create the schedule
--   asked    time    Redis's time when the caller read the schedule; the definition decides ticks after it
--   def      text    JSON: the definition without its task
--   task     text    the definition of every tick's task: a line of JSON, a line break, the payload
--   pause    flag    also pauses the schedule
--   by       text    who puts it, "" if nobody knows
--   nonce    text    drawn for this call, so that its repeat is known
--   wake     channel
--   changes  channel
-- reply:
--   schedule  hash  the schedule as it is now
-- refuses:
--   CHANGED  the schedule has another revision; the detail is its number, 0 for none
--   EARLY    ticks later than asked have been decided in the meantime: read the schedule and call again
-- repeat: harmless: the nonce of the present revision is that of the call
-- full: refused
local revision, cursor, from, ended, old_def, old_task, paused, last_nonce, old_by =
  unpack(redis.call('HMGET', schedule, 'revision', 'cursor', 'from', 'ended', 'def', 'task', 'paused', 'nonce', 'by'))
if last_nonce == nonce then
  return { redis.call('HGETALL', schedule) }
end
if tonumber(revision or '0') ~= base then
  return refuse('CHANGED', revision or '0')
end
if cursor and tonumber(cursor) > asked then
  return refuse('EARLY', cursor)
end

-- is_past returns whether an entry of the history decides no tick any more; one that cannot be read decides none.
local function is_past(entry)
  local readable, earlier = pcall(cjson.decode, entry)
  return not readable or type(earlier) ~= 'table' or tonumber(earlier['until'] or 0) <= tonumber(cursor)
end

asked = int(asked)
if revision then
  redis.call('LPUSH', history, cjson.encode({
    revision = revision, from = from, ['until'] = ended or asked, def = old_def, task = old_task, by = old_by or nil }))
  local kept = redis.call('LLEN', history)
  while kept > REVISIONS_UNDECIDED or kept > REVISIONS_LIMIT and is_past(redis.call('LINDEX', history, -1)) do
    redis.call('RPOP', history)
    kept = kept - 1
  end
else
  redis.call('HSET', schedule, 'created', asked, 'cursor', asked)
  redis.call('ZADD', schedules, 0, member)
end
revision = int(base + 1)
redis.call('HSET', schedule, 'revision', revision, 'from', asked, 'def', def, 'task', task,
  'queue', queue_note(revision, task), 'nonce', nonce, 'by', revision .. ' ' .. by)
redis.call('HDEL', schedule, 'ended')
if pause and not paused then
  redis.call('HSET', schedule, 'paused', asked, 'note', '', 'paused_by', asked .. ' ' .. by)
end
if paused or pause then
  redis.call('ZREM', ticks, member)
else
  look_at(member, asked)
end
tell({ type = base == 0 and 'schedule.created' or 'schedule.updated', ref = member, at = asked, revision = revision,
  by = by })
if pause and not paused then
  tell({ type = 'schedule.paused', ref = member, at = asked, revision = revision, by = by })
end
return { redis.call('HGETALL', schedule) }
