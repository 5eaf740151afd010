-- examine_workflows: finds what does not fit together of workflows that were put, each in one moment, and repairs it if
-- it is asked to.
-- includes: clock, number, findings
-- keys:
--   workflows  ZSET  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   members  (member text, broken text, digest text)*  broken: why the caller cannot read the workflow with that SHA-1
--     of its definition; "" if it can
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused

-- put_aside keeps what Redis has of a workflow for a while, where nobody looks for it.
local function put_aside(member)
  for kind, key in pairs({ workflow = workflow_key(member), revisions = revisions_key(member) }) do
    if redis.call('EXISTS', key) == 1 then
      local kept = aside_key(int(now) .. ':' .. kind .. ':' .. member)
      redis.call('RENAME', key, kept)
      redis.call('PEXPIRE', kept, ASIDE_KEPT)
    end
  end
  redis.call('ZREM', workflows, member)
end

for member, broken, digest in members() do
  local def, listed = redis.call('HGET', workflow_key(member), 'def'), redis.call('ZSCORE', workflows, member)
  local lost = not def and (listed or redis.call('EXISTS', workflow_key(member), revisions_key(member)) > 0)
  if lost and report(member, 'workflow-unreadable', 'has lost its definition') then
    put_aside(member)
  elseif def and broken ~= '' and redis.sha1hex(def) == digest then -- a later release may have written it
    report_only(member, 'workflow-unreadable', 'cannot be read: ' .. broken)
  elseif def and not listed and report(member, 'workflow-drift', 'is there, and not in ' .. workflows) then
    redis.call('ZADD', workflows, 0, member)
  end
  if not def and redis.call('EXISTS', line_key(member)) == 1 and
      report(member, 'workflow-leftovers', 'does not exist, and ' .. line_key(member) .. ' is left of it') then
    redis.call('DEL', line_key(member))
  end
end
return { found }
