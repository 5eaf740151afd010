-- progress: records the progress of the running attempt.
-- includes: running, number, progress, events
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   member    member
--   attempt   attempt  the attempt that reports
--   run       run      of the run that reports, or "" for a report on its behalf
--   progress  number   percent, 0 to 100
--   note      text     what the attempt is at; "" for none
--   events    channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such task
--   STATE      the task is not running; the detail is its state
--   STALE      another attempt or run is current; the detail is the number of the current attempt
-- repeat: harmless: it records the same progress again
-- full: works
local refused, fields, record = check_running(run == '')
if refused then
  return refused
end

fields.progress = progress_field(fields.progress, progress, note)
redis.call('HSET', states, member, format_state(fields))
announce('progress', member, fields.state, attempt, node_of(fields.run), record, ',"progress":' .. int(progress) ..
  (note ~= '' and ',"note":' .. cjson.encode(note) or ''))
return {}
