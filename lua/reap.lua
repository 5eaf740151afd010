-- reap: a leader ends the running attempt of a worker that died or has lost it. Another attempt follows, or the task ends.
-- includes: clock, number, refuse, fence, running, state, changes, ending
-- keys:
--   lease   STRING  the script makes further keys of the same partition
--   states  HASH
-- args:
--   fence      fence    that this leader got with the lease
--   member     member
--   attempt    attempt
--   run        run      of the run that is lost
--   state      state    of the task from now on: scheduled, failed or cancelled
--   lease_end  time     of the run, as look_after has left it
--   reason     text
--   due        time     of the further attempt; one that has passed: at once
--   retention  ms       how long the task is kept if it ends
--   events     channel
--   wake       channel
-- reply:
--   paused  flag  the script paused the schedule that created the task: too many of its tasks in a row failed
-- refuses:
--   FENCED     another leader holds the lease of the partition, or none does
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
--   HELD       the run is leased again
--   CANCELLED  the task was asked to stop: end it as cancelled
-- repeat: refused with STATE or STALE, because the first run ended the attempt
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local refused, fields, record = check_running()
if refused then
  return refused
end
local held_until = tonumber(redis.call('ZSCORE', held_key, member) or 0)
if held_until > now and held_until ~= lease_end then
  return refuse('HELD', member)
end
if fields.cancel and state ~= 'cancelled' then
  return refuse('CANCELLED', member)
end

redis.call('LPUSH', lost_key, int(now) .. ' ' .. member .. ':' .. attempt .. ' ' .. node_of(run))
redis.call('LTRIM', lost_key, 0, LOST_LIMIT - 1)
fields.run = node_of(run) .. '#' -- a late report of the lost run must not pass for a repetition of this end
return { end_attempt(member, record, fields, state, 'lost', reason, math.max(0, due - now), retention) and 1 or 0 }
