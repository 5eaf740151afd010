-- deletion: deletes tasks that have ended.
-- needs: arg remember, arg remember_limit, arg limit
-- includes: changes, memory

-- delete_ended deletes tasks with those states.
local function delete_ended(members, states)
  if #members == 0 then
    return
  end
  note_deleted(members, states)
  remember_tasks(members, states)
  for i, member in ipairs(members) do
    local state = string.match(states[i] or '', '^%a+')
    if state then
      remove_later(index_key(string.match(member, '^[^:]+'), state), member)
    end
    for _, hash in ipairs({
      defs_key(), states_key(), payloads_key(), originals_key(), results_key(), errors_key(), checkpoints_key(),
    }) do
      delete_later(hash, member)
    end
    redis.call('UNLINK', attempts_key(member), log_key(member)) -- a log may have megabytes
    remove_later(expiry_key(), member)
  end
end
