-- log: the running attempt wrote lines.
-- includes: clock, number, refuse, events
-- keys:
--   task  HASH
--   log   STREAM
-- args:
--   member   member
--   attempt  attempt
--   run      run      token of the run
--   first    number   number of the first line, from 1 in each attempt
--   events   channel
--   lines    (stream text, text text)*
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task does not run; the detail is its state
--   STALE      another attempt, or another run of it, is the one that counts
-- repeat: harmless: lines whose number is in the log already are passed over
local state, current, owner, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end

local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local known = last and tonumber(string.match(last[1], '^' .. attempt .. '%-(%d+)$')) or 0
local number = first
for stream, text in lines() do
  if number > known then
    redis.call('XADD', log, 'MAXLEN', LOG_LIMIT, attempt .. '-' .. int(number), 'stream', stream, 'at', int(now), 'text', text)
    announce('log', member, state, attempt, node, def, ',"line":' .. cjson.encode({ stream = stream, text = text }))
  end
  number = number + 1
end
return {}
