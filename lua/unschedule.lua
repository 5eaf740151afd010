-- unschedule: a schedule is deleted, with its ledger and its history. Its tasks stay.
-- keys:
--   1 schedule   HASH
--   2 schedules  ZSET  "namespace:id" of every schedule of the partition
--   3 ticks      ZSET  "namespace:id", scored by the ms at which the leader looks at the schedule
--   4 history    LIST
--   5 live       ZSET  names of its ticks whose task has not ended
--   6 waiting    LIST  ticks that wait for those
--   7 ledger     ZSET
-- args:
--   1 member  "namespace:id"
-- reply: 1
-- refuses:
--   NOTFOUND  no such schedule
--   RUNS      it is not paused: somebody has resumed it in the meantime
-- repeat: refused with NOTFOUND
local schedule, schedules, ticks, history, live, waiting, ledger =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local member = ARGV[1]

local revision, paused = unpack(redis.call('HMGET', schedule, 'revision', 'paused'))
if not revision then
  return refuse('NOTFOUND', member)
end
if not paused then
  return refuse('RUNS', member)
end

redis.call('DEL', schedule, history, live, waiting, ledger)
redis.call('ZREM', schedules, member)
redis.call('ZREM', ticks, member)
return 1
