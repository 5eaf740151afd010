-- pause_queue: keeps workers from taking deliveries from a queue.
-- includes: clock, number
-- keys:
--   paused  STRING
-- args: nothing
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the queue stays paused since the first run
-- full: works
redis.call('SET', paused, int(math.floor(now / 1000)), 'NX')
return {}
