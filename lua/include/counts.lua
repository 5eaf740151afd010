-- counts: counts what was done, by day and in total, as asynq does.
-- includes: clock, number

-- count adds n to a counter of today, which expires, and to the counter of all days.
local function count(today, total, n)
  if redis.call('INCRBY', today, n) == n then
    redis.call('EXPIREAT', today, int(now / 1000 + STATISTICS_KEEP))
  end
  redis.call('INCRBY', total, n)
end
