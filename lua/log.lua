-- log: appends lines of the running attempt to the task's log.
-- includes: running, clock, number, events
-- keys:
--   states  HASH    the script makes further keys of the same partition
--   log     STREAM
-- args:
--   member   member
--   attempt  attempt
--   run      run      of the run that reports
--   first    number   number of the first line, from 1 in each attempt; 0 for the next one
--   events   channel
--   lines    (stream text, text text)*
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: lines that are in the log already are not appended again, unless first is 0
-- full: refused
local refused, fields, record = check_running()
if refused then
  return refused
end

local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local known = last and tonumber((string.match(last[1], '^' .. attempt .. '%-(%d+)$'))) or 0
local number = first == 0 and known + 1 or first
for stream, line in lines() do
  if number > known then
    redis.call('XADD', log, 'MAXLEN', LOG_LIMIT, attempt .. '-' .. int(number), 'stream', stream, 'at', int(now), 'text', line)
    announce('log', member, fields.state, attempt, node_of(fields.run), record, ',"line":' .. cjson.encode({ stream = stream, text = line }))
  end
  number = number + 1
end
return {}
