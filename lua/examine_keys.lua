-- examine_keys: finds what does not fit together of keys of submissions, and repairs it if it is asked to: a key
-- without a task, and a task that waits for the end of another task though that has ended.
-- includes: state, findings, once, standing, let_go, outbox
-- keys:
--   once  HASH  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   events   channel
--   wake     channel
--   members  text*  keys, with their namespaces
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused

-- is_there returns whether the task of a key exists that has that name.
local function is_there(key, name)
  return name and redis.call('HEXISTS', defs_key, key .. '@k' .. name) == 1
end

-- is_followed returns whether the leader is about to act on the end of a task.
local function is_followed(key, name)
  return name and is_marked(redis.call('HGET', states_key, key .. '@k' .. name) or '')
end

for key in members() do
  local known = read_key(key)
  if not is_there(key, known.front) and not is_there(key, known.behind) then
    if report(key, 'key-drift', 'is known, and has no task that exists') then
      redis.call('HDEL', once, key)
    end
  elseif standing_of(key, known.behind) == 'wait' and not standing_of(key, known.front) and
      not is_followed(key, known.front) then
    local words = 'has a task that waits, ' .. key .. '@k' .. known.behind .. ', and none that has not ended'
    if report(key, 'key-drift', words) then
      let_go(key)
    end
  end
end
return { found }
