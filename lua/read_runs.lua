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
local names, parts = {}, {}
for member, part in items() do
  names[#names + 1], parts[#parts + 1] = member, part
end

-- values returns what a hash has of each item.
local function values(key)
  return redis.call('HMGET', key, unpack(names))
end

local records, states, results, errors = values(defs), values(states_key), values(results_key), values(errors_key)
local dues, texts, asks = redis.call('ZMSCORE', wheel_key, unpack(names)), values(runs_key), values(asks_key)
local found = {}
for i, member in ipairs(names) do
  local record, whole = records[i], parts[i] == 'run'
  found[#found + 1] = record and (whole and record or without_payload(record)) or ''
  found[#found + 1] = record and whole and stored_payload(member, record) or ''
  found[#found + 1] = states[i] or ''
  found[#found + 1] = tonumber(due_at(member, record, states[i], dues[i]) or false) or false
  found[#found + 1] = results[i] or ''
  found[#found + 1] = errors[i] or ''
  found[#found + 1] = texts[i] or ''
  found[#found + 1] = whole and redis.call('HGET', plans_key, member) or ''
  found[#found + 1] = asks[i] or ''
end
return { found }
