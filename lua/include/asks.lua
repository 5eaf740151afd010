-- asks: what somebody asks of runs of workflows.
-- needs: arg wake
-- includes: clock, number, wakes

-- ask_run notes what somebody asks of a run, unless that is noted already, and has the leader plan it. "" is nothing.
local function ask_run(run, ask)
  local asks = redis.call('HGET', asks_key, run) or ''
  if ask ~= '' and not string.find('\n' .. asks, '\n' .. ask .. '\n', 1, true) then
    redis.call('HSET', asks_key, run, asks .. ask .. '\n')
  end
  redis.call('ZADD', outbox_key, 'LT', int(now), 'plan ' .. run)
  wake_leader('follow')
end
