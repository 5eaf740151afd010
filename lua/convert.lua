-- convert: writes tasks of an older layout in the form of this one. Each of them is converted, or is not, by itself.
-- includes: number, changes, definition
-- keys:
--   defs  HASH  the script makes further keys of the same partition
-- args:
--   tasks  (member member, created number, def text, state text, original text, result text, reason text, held time,
--     ended flag)*  created: ms since 1970; def: the head, a line break, and the payload; state: "" if the task was never
--     claimed; original, result and reason: "" for none; held: end of the run lease, none if the task does not run; ended:
--     the newest entry of the list of attempts is in the state now
-- reply:
--   converted  number  tasks that were in the older form until now
-- refuses: nothing
-- repeat: harmless: a converted task has no hash of the older layout any more
-- full: refused
local converted = 0
for member, created, def, state, original, result, reason, held, ended in tasks() do
  if redis.call('EXISTS', old_task_key(member)) == 1 then
    converted = converted + 1
    local stored, payload = split_payload(def)
    set_later(defs, member, int(created) .. stored)
    for hash, value in pairs({
      [payloads_key] = payload, [states_key] = state, [originals_key] = original, [results_key] = result,
      [errors_key] = reason,
    }) do
      if value ~= '' then
        set_later(hash, member, value)
      end
    end
    if held then
      put_later(held_key, int(held), member)
    end
    if ended then
      redis.call('RPOP', attempts_key(member))
    end
    redis.call('DEL', old_task_key(member))
  end
end
return { converted }
