-- deletion: deletes tasks that have ended.
-- needs: arg remember, arg remember_limit, arg limit, arg wake
-- includes: clock, number, changes, memory, state, outbox, once, step

local ASK_AGAIN = 3600000 -- ms until a step is looked at again whose run has yet to begin again

-- is_needed returns whether a task is that of a step whose run has not ended. A mark says so as well, but a run that is
-- to begin again sets the marks when it begins.
local function is_needed(member)
  local run = run_of(member)
  local text = run and redis.call('HGET', states_key, run)
  return text and not end_of(text)
end

-- spare removes from two lists, of tasks that have ended and their states, those that owe a follow-up, which the leader
-- creates first, and those of steps whose run needs them.
local function spare(members, states)
  local n = 0
  for i, member in ipairs(members) do
    local text = states[i] or ''
    if is_needed(member) then -- so late that it is not the next one to go again
      redis.call('ZADD', expiry_key, int(now + (is_marked(text) and STEP_RETENTION or ASK_AGAIN)), member)
    elseif is_marked(text) then
      local state, at = end_of(text)
      owe_follow_up(member, string.match(text, '^%a+ (%d+)'), state, at)
    else
      n = n + 1
      members[n], states[n] = member, states[i]
    end
  end
  for i = #members, n + 1, -1 do
    members[i], states[i] = nil, nil
  end
end

-- forget_key forgets of the key of a task what concerns that task.
local function forget_key(member)
  local key, name = split_key(member)
  local known = key and read_key(key)
  if not known or known.front ~= name and known.behind ~= name then
    return
  end
  known.front, known.behind = known.front ~= name and known.front or nil, known.behind ~= name and known.behind or nil
  write_key(key, known)
end

-- delete_ended deletes tasks with those states, but for those that owe a follow-up, which it removes from the lists.
local function delete_ended(members, states)
  spare(members, states)
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
      defs_key, states_key, payloads_key, originals_key, results_key, errors_key, checkpoints_key, runs_key, plans_key,
      asks_key,
    }) do
      delete_later(hash, member)
    end
    redis.call('UNLINK', attempts_key(member), log_key(member)) -- a log may have megabytes
    remove_later(expiry_key, member)
    forget_key(member)
  end
end
