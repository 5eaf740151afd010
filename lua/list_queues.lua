-- list_queues: adds queues to asynq's list of queues.
-- includes: nothing
-- keys:
--   queues  SET
-- args:
--   names  text*
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: they are on it
-- full: works
for name in names() do
  redis.call('SADD', queues, name)
end
return {}
