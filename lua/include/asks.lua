-- asks: what somebody asks of runs of workflows.
-- needs: arg wake
-- includes: clock, number, wakes

-- is_first reports whether of several such asks the first one counts: it is a signal, or an answer to an approval.
local function is_first(ask)
  return string.find(ask, '^signal ') or string.find(ask, '^answer ')
end

-- signals_of returns the signals among what is asked of a run.
local function signals_of(run)
  local signals = ''
  for line in string.gmatch(redis.call('HGET', asks_key, run) or '', '[^\n]+') do
    signals = signals .. (string.find(line, '^signal ') and line .. '\n' or '')
  end
  return signals
end

-- ask_run notes what somebody asks of a run, and has the leader plan it. "" is nothing. An ask that is there already
-- becomes the newest one, unless the first one counts.
local function ask_run(run, ask)
  if ask ~= '' then
    local asks = redis.call('HGET', asks_key, run) or ''
    local at = string.find('\n' .. asks, '\n' .. ask .. '\n', 1, true)
    if at and not is_first(ask) then
      asks, at = string.sub(asks, 1, at - 1) .. string.sub(asks, at + #ask + 1), nil
    end
    redis.call('HSET', asks_key, run, asks .. (at and '' or ask .. '\n'))
  end
  redis.call('ZADD', outbox_key, 'LT', int(now), 'plan ' .. run)
  wake_leader('follow')
end
