-- remains: what is left of tasks that do not exist.
-- includes: nothing

-- remains_of returns the hashes that have a field of a member, and the keys that belong to it alone.
local function remains_of(member)
  local hashes, keys = {}, {}
  for _, hash in ipairs({
    states_key, payloads_key, originals_key, results_key, errors_key, checkpoints_key, runs_key, plans_key, asks_key,
  }) do
    if redis.call('HEXISTS', hash, member) == 1 then
      hashes[#hashes + 1] = hash
    end
  end
  for _, key in ipairs({ attempts_key(member), log_key(member) }) do
    if redis.call('EXISTS', key) == 1 then
      keys[#keys + 1] = key
    end
  end
  return hashes, keys
end
