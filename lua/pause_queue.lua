-- pause_queue: keeps workers from taking deliveries from a queue. asynq writes the time of the pause alone, and reads
-- it nowhere.
-- includes: clock, number, tell
-- keys:
--   paused  STRING
-- args:
--   queue    text  its name
--   by       text  who pauses it, "" if nobody knows
--   note     text  why, "" if nobody says
--   changes  channel
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the queue stays paused since the first run
-- full: works
local said = by .. (note ~= '' and '\n' .. note or '')
if redis.call('SET', paused, int(math.floor(now / 1000)) .. (said ~= '' and ' ' .. said or ''), 'NX') then
  tell({ type = 'queue.paused', queue = queue, at = int(now), by = by, note = note })
end
return {}
