-- schedule: somebody creates a schedule, or replaces its definition.
-- What it becomes is looked at by the leader at once: ticks that are due up to now are decided by the old definition's
-- times, the following ones by the new one's.
-- keys:
--   1 schedule   HASH
--   2 history    LIST  JSON of the revisions before the present one, the newest first
--   3 schedules  ZSET  "namespace:id" of every schedule of the partition, all of score 0
--   4 ticks      ZSET  "namespace:id", scored by the ms at which the leader looks at the schedule
-- args:
--   1 member     "namespace:id"
--   2 base       the revision the definition is to replace, 0 for none
--   3 asked      ms: Redis's time when the caller looked; the new definition counts from then on
--   4 def        JSON: when it ticks, and all that is not told below
--   5 task       the definition of every tick's task: a line of JSON, a line break, the payload
--   6 overlap    policy
--   7 max_runs   ticks that may run, 0 for no limit
--   8 breaker    failures in a row that pause it, "" for never
--   9 retention  ms for which cancelled tasks are kept
--   10 paused    1 to pause it as well, else ""
--   11 keep      revisions remembered next to the present one
--   12 most      ... and while ticks of their time are not decided
--   13 wake      channel that leaders listen to
-- reply: HGETALL of the schedule as it is now
-- refuses:
--   CHANGED  the schedule has another revision; the detail is its number, 0 for none
--   EARLY    what becomes of ticks after the time asked has been decided in the meantime: ask again
-- repeat: refused with CHANGED, the revision being the one after base: the caller reads it and finds its own definition
local schedule, history, schedules, ticks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, base, asked, def, task, overlap, max_runs, breaker, retention, paused, keep, most, wake = unpack(ARGV)

local revision, cursor, from, ended, old, its, was =
  unpack(redis.call('HMGET', schedule, 'revision', 'cursor', 'from', 'ended', 'def', 'task', 'paused'))
if (revision or '0') ~= base then
  return refuse('CHANGED', revision or '0')
end
if cursor and tonumber(cursor) > tonumber(asked) then
  return refuse('EARLY', cursor)
end

if revision then
  redis.call('LPUSH', history, cjson.encode({
    revision = revision, from = from, ['until'] = ended or asked, def = old, task = its }))
  local kept = redis.call('LLEN', history)
  while kept > tonumber(most) or kept > tonumber(keep) and
      tonumber(cjson.decode(redis.call('LINDEX', history, -1))['until']) <= tonumber(cursor) do
    redis.call('RPOP', history)
    kept = kept - 1
  end
else
  redis.call('HSET', schedule, 'created', asked, 'cursor', asked)
  redis.call('ZADD', schedules, 0, member)
end
redis.call('HSET', schedule, 'revision', int(base + 1), 'from', asked, 'def', def, 'task', task,
  'overlap', overlap, 'max_runs', max_runs, 'breaker', breaker, 'retention', retention)
redis.call('HDEL', schedule, 'ended')
if breaker == '' then
  redis.call('HDEL', schedule, 'breaker')
end
if paused == '1' and not was then
  redis.call('HSET', schedule, 'paused', asked, 'note', '')
end
if was or paused == '1' then
  redis.call('ZREM', ticks, member)
else
  look_at(partition_of(schedule, member), member, tonumber(asked), wake)
end
return redis.call('HGETALL', schedule)
