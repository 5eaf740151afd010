-- enter_line: runs take their places in the line of their workflow, in that order. Only the first runs of the line may
-- run, as many as max_runs of the workflow says.
-- includes: clock, number
-- keys:
--   line  ZSET
-- args:
--   runs  text*  `<ref> <attempt>`
-- reply:
--   places  (before number)*  how many are before each of them
-- refuses: nothing
-- repeat: harmless: a run keeps its place
-- full: refused
local last = tonumber(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] or '0')
local places = {}
for run in runs() do
  local rank = redis.call('ZRANK', line, run)
  if not rank then
    last = math.max(now, last + 1) -- later than all others, whatever the clock says
    redis.call('ZADD', line, int(last), run)
    rank = redis.call('ZCARD', line) - 1
  end
  places[#places + 1] = rank
end
return { places }
