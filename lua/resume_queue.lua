-- resume_queue: lets workers take deliveries from a queue again, and wakes them.
-- includes: clock, number, tell
-- keys:
--   paused  STRING
-- args:
--   queue     text  its name
--   by        text  who resumes it, "" if nobody knows
--   arrivals  channel
--   changes   channel
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: a queue that is not paused stays as it is; its workers are woken again
-- full: works
if redis.call('DEL', paused) == 1 then
  tell({ type = 'queue.resumed', queue = queue, at = int(now), by = by })
end
redis.call('PUBLISH', arrivals, '')
return {}
