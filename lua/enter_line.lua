-- enter_line: a run takes its place in the line of its workflow. Only the first runs of the line may run, as many as
-- max_runs of the workflow says.
-- includes: clock, number
-- keys:
--   line  ZSET
-- args:
--   run  text  `<ref> <attempt>`
-- reply:
--   before  number  how many are before it
-- refuses: nothing
-- repeat: harmless: the run keeps its place
-- full: refused
local rank = redis.call('ZRANK', line, run)
if not rank then
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] -- later than all others, whatever the clock says
  redis.call('ZADD', line, int(math.max(now, tonumber(last or '0') + 1)), run)
  rank = redis.call('ZCARD', line) - 1
end
return { rank }
