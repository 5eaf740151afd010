-- put_workflow: creates a workflow, or replaces its definition. Runs that have begun keep the one that they have.
-- includes: clock, number, refuse, tell
-- keys:
--   workflow   HASH
--   revisions  LIST
--   workflows  ZSET
-- args:
--   member   member
--   base     number  the revision to replace, 0 to create the workflow
--   def      text    the definition, as JSON
--   by       text    who puts it, "" if nobody knows
--   nonce    text    drawn for this call, so that its repeat is known
--   changes  channel
-- reply:
--   workflow  hash  the workflow as it is now
-- refuses:
--   CHANGED  the workflow has another revision; the detail is its number, 0 for none
-- repeat: harmless: the nonce of the present revision is that of the call
-- full: refused
local revision, last_nonce, from, old_def, old_by =
  unpack(redis.call('HMGET', workflow, 'revision', 'nonce', 'from', 'def', 'by'))
if last_nonce == nonce then
  return { redis.call('HGETALL', workflow) }
end
if tonumber(revision or '0') ~= base then
  return refuse('CHANGED', revision or '0')
end

if revision then
  redis.call('LPUSH', revisions, cjson.encode({ revision = revision, from = from, def = old_def, by = old_by }))
  redis.call('LTRIM', revisions, 0, REVISIONS_LIMIT - 1)
else
  redis.call('HSET', workflow, 'created', int(now))
  redis.call('ZADD', workflows, 0, member)
end
revision = int(base + 1)
redis.call('HSET', workflow, 'revision', revision, 'from', int(now), 'def', def, 'by', by, 'nonce', nonce)
tell({ type = base == 0 and 'workflow.created' or 'workflow.updated', ref = member, at = int(now), revision = revision,
  by = by })
return { redis.call('HGETALL', workflow) }
