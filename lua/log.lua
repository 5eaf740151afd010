-- log: the running attempt wrote lines.
-- keys:
--   1 task  HASH
--   2 log   STREAM  ids are "<attempt>-<number of the line>"; fields stream, at (ms), text
-- args:
--   1 member   "namespace:id"
--   2 attempt  number
--   3 run      token of the run
--   4 keep     lines at most
--   5 first    number of the first line, from 1 in each attempt
--   6 events   channel
--   7 lines    JSON: [{"stream": ..., "text": ...}, ...]
-- reply: 1
-- refuses:
--   NOTFOUND  no such task
--   STATE     the task does not run; the detail is its state
--   STALE     another attempt, or another run of it, is the one that counts
-- repeat: harmless: lines whose number is in the log already are passed over
local task, log = KEYS[1], KEYS[2]
local member, attempt, run, keep, first, events, lines = unpack(ARGV)

local state, current, owner, node, def = unpack(redis.call('HMGET', task, 'state', 'attempt', 'run', 'node', 'def'))
if not state then
  return refuse('NOTFOUND', member)
end
if state ~= 'running' then
  return refuse('STATE', state)
end
if current ~= attempt or owner ~= run then
  return refuse('STALE', current)
end

local now = now_ms()
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local known = last and tonumber(string.match(last[1], '^' .. attempt .. '%-(%d+)$')) or 0
for i, line in ipairs(cjson.decode(lines)) do
  local number = tonumber(first) + i - 1
  if number > known then
    redis.call('XADD', log, 'MAXLEN', keep, attempt .. '-' .. int(number),
      'stream', line.stream, 'at', int(now), 'text', line.text)
    announce(events, 'log', member, state, attempt, node, now, def, ',"line":' .. cjson.encode(line))
  end
end
return 1
