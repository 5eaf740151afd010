-- log: appends lines of the running attempt to the task's log.
-- includes: clock, number, refuse, events
-- keys:
--   task  HASH
--   log   STREAM
-- args:
--   member   member
--   attempt  attempt
--   run      run      of the run that reports
--   first    number   number of the first line, from 1 in each attempt
--   events   channel
--   lines    (stream text, text text)*
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: lines that are in the log already are not appended again
local state, current, current_run, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOT_FOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or current_run ~= run then
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
