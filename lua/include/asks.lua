-- asks: what somebody asks of runs of workflows.
-- needs: arg wake
-- includes: clock, number, wakes

-- ask_run notes what somebody asks of a run as the newest of what is asked, and has the leader plan it. "" is nothing.
local function ask_run(run, ask)
  if ask ~= '' then
    local asks = redis.call('HGET', asks_key, run) or ''
    local at = string.find('\n' .. asks, '\n' .. ask .. '\n', 1, true)
    if at then -- it was asked before
      asks = string.sub(asks, 1, at - 1) .. string.sub(asks, at + #ask + 1)
    end
    redis.call('HSET', asks_key, run, asks .. ask .. '\n')
  end
  redis.call('ZADD', outbox_key, 'LT', int(now), 'plan ' .. run)
  wake_leader('follow')
end
