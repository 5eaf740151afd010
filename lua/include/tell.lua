-- tell: publishes a change of a schedule, a workflow, a queue or a limit, for those who follow changes.
-- needs: arg changes
-- includes: number

-- tell publishes a change: its members, all of them texts. It comes after the last refusal, and only if something has
-- changed.
local function tell(change)
  redis.call('PUBLISH', changes, cjson.encode(change))
end

