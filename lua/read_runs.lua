-- read_runs: reads runs of workflows and tasks of their steps, all at one moment.
-- includes: definition, place, due
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   items  (name member, part text)*  part: run; known, for a run without what the reader knows of it; or step
-- reply:
--   found  (record text, payload text, state text, due time, result text, reason text, text text, plan text, asks
--     text)*  for each of the items: record: the stored definition, without the payload if it is known or a step, "" if
--     there is no such task; due: of scheduled tasks. Only of runs: text: what became of the steps; plan: that of its
--     workflow, as JSON, "" if known; asks: what is asked of it, a line each
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local found = {}
for member, part in items() do
  local record, state = redis.call('HGET', defs, member), redis.call('HGET', states_key, member)
  local whole = part == 'run'
  found[#found + 1] = record and (whole and record or without_payload(record)) or ''
  found[#found + 1] = record and whole and stored_payload(member, record) or ''
  found[#found + 1] = state or ''
  found[#found + 1] = tonumber(due_at(member, record, state, redis.call('ZSCORE', wheel_key, member)) or false) or false
  found[#found + 1] = redis.call('HGET', results_key, member) or ''
  found[#found + 1] = redis.call('HGET', errors_key, member) or ''
  found[#found + 1] = part ~= 'step' and redis.call('HGET', runs_key, member) or ''
  found[#found + 1] = whole and redis.call('HGET', plans_key, member) or ''
  found[#found + 1] = part ~= 'step' and redis.call('HGET', asks_key, member) or ''
end
return { found }
