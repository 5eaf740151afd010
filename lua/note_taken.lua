-- note_taken: records what a worker by HTTP is about to begin, in place of what it took before.
-- includes: number
-- keys:
--   taken  STRING
-- args:
--   record    text
--   lifetime  ms
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: it records the same
-- full: works
redis.call('SET', taken, record, 'PX', int(lifetime))
return {}
