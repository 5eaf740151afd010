-- pause_queue: keeps workers from taking deliveries from a queue. asynq writes the time of the pause alone, and reads it nowhere.
-- includes: clock, number
-- keys:
--   paused  STRING
-- args:
--   by  text  who pauses it, "" if nobody knows
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the queue stays paused since the first run
-- full: works
redis.call('SET', paused, int(math.floor(now / 1000)) .. (by ~= '' and ' ' .. by or ''), 'NX')
return {}
