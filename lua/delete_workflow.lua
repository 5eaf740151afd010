-- delete_workflow: deletes a workflow with its earlier revisions. Runs that have begun go on; those that have not fail.
-- includes: clock, number, refuse, tell
-- keys:
--   workflow   HASH
--   revisions  LIST
--   workflows  ZSET
--   line       ZSET
-- args:
--   member   member
--   base     number   the revision that is deleted; 0 for whichever it has
--   by       text     who deletes it, "" if nobody knows
--   changes  channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such workflow
--   CHANGED    the workflow has another revision; the detail is its number
-- repeat: refused with NOT_FOUND
-- full: works
local revision = redis.call('HGET', workflow, 'revision')
if not revision then
  return refuse('NOT_FOUND', member)
end
if base > 0 and tonumber(revision) ~= base then
  return refuse('CHANGED', revision)
end

redis.call('DEL', workflow, revisions, line)
redis.call('ZREM', workflows, member)
tell({ type = 'workflow.deleted', ref = member, at = int(now), revision = revision, by = by })
return {}
