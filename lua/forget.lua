-- forget: deletes tasks that have ended, before their retention is over. It keeps the names of tasks that ended less
-- than remember ago, so that they do not run again when they are submitted again. Tasks that owe a follow-up stay, and
-- those of steps whose run has not ended. With a run of a workflow go its steps that have ended.
-- includes: clock, changes, definition, memory, deletion, state, outbox
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   remember        ms      how long after its end the name of a task is taken at least
--   remember_limit  number  maximum number of names of deleted tasks in the partition
--   limit           number  maximum number of names to forget
--   wake            channel
--   tasks           (member member, ended time)*  ended: when the task has ended; with another end, it stays
-- reply:
--   deleted  flag*  for each task whether it was deleted
-- refuses: nothing
-- repeat: harmless: what does not exist is not deleted again
-- full: works
local members, ends = {}, {}
for member, ended in tasks() do
  members[#members + 1], ends[#members + 1] = member, ended
end
local texts = redis.call('HMGET', states, unpack(members))
local gone, states_of_gone, deleted = {}, {}, {}
for i, member in ipairs(members) do
  local state, finished = end_of(texts[i] or '')
  local same = state and tonumber(finished) == ends[i] and not is_marked(texts[i]) and not is_needed(member)
  deleted[i] = same and 1 or 0
  if same then
    gone[#gone + 1], states_of_gone[#gone + 1] = member, texts[i]
    local plan = redis.call('HGET', plans_key, member) or ''
    for id in string.gmatch(plan, '"id":"([^"]+)"') do -- of each step, and of what no task is named after
      local step = member .. '@.' .. id
      local text = redis.call('HGET', states, step)
      if text and end_of(text) and not is_marked(text) then
        gone[#gone + 1], states_of_gone[#gone + 1] = step, text
      end
    end
  end
end
delete_ended(gone, states_of_gone)
forget_names()
return { deleted }
