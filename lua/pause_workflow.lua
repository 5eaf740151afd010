-- pause_workflow: keeps further runs of a workflow from beginning, or lets them begin again. Runs that have begun go
-- on.
-- includes: clock, number, refuse, tell
-- keys:
--   workflow  HASH
-- args:
--   member   member
--   pause    flag     pauses it; else resumes it
--   note     text     why; "" keeps the note of an earlier pause
--   by       text     who does it, "" if nobody knows
--   changes  channel
-- reply:
--   workflow  hash  the workflow as it is now
-- refuses:
--   NOT_FOUND  no such workflow
-- repeat: harmless: the workflow is as it is wanted since the first run
-- full: works
local revision, paused, note_before = unpack(redis.call('HMGET', workflow, 'revision', 'paused', 'note'))
if not revision then
  return refuse('NOT_FOUND', member)
end

if not pause then
  if redis.call('HDEL', workflow, 'paused', 'paused_by', 'note') > 0 then
    tell({ type = 'workflow.resumed', ref = member, at = int(now), revision = revision, by = by })
  end
elseif not paused or note ~= '' and note ~= note_before then
  redis.call('HSET', workflow, 'paused', paused or int(now), 'paused_by', by, 'note', note)
  tell({ type = 'workflow.paused', ref = member, at = int(now), revision = revision, by = by, note = note })
end
return { redis.call('HGETALL', workflow) }
