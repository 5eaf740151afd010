-- read_tasks: reads tasks.
-- includes: definition, place, due
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   brief    flag   leave out payloads, results and errors
--   members  text*
-- reply:
--   tasks  (record text, payload text, state text, due time, result text, reason text)*  for each of the members: the stored
--     definition, "" if there is no such task; payload: "" if the definition has it, or the reply is brief; due: of scheduled
--     tasks
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local names = {}
for member in members() do
  names[#names + 1] = member
end
local records, states = redis.call('HMGET', defs, unpack(names)), redis.call('HMGET', states_key, unpack(names))
local results, errors = {}, {}
if not brief then
  results, errors = redis.call('HMGET', results_key, unpack(names)), redis.call('HMGET', errors_key, unpack(names))
end
local dues = redis.call('ZMSCORE', wheel_key, unpack(names))
local tasks = {}
for i, member in ipairs(names) do
  tasks[#tasks + 1] = records[i] and (brief and without_payload(records[i]) or records[i]) or ''
  tasks[#tasks + 1] = records[i] and not brief and stored_payload(member, records[i]) or ''
  tasks[#tasks + 1] = states[i] or ''
  tasks[#tasks + 1] = tonumber(due_at(member, records[i], states[i], dues[i]) or false) or false
  tasks[#tasks + 1] = results[i] or ''
  tasks[#tasks + 1] = errors[i] or ''
end
return { tasks }
