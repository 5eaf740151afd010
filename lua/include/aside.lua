-- aside: keeps what nobody can read, for a while, where DTS does not look.
-- includes: clock, number, remains

-- put_aside keeps what Redis has of a task that nobody can read, or that has lost its definition, for a while, and
-- removes it from where DTS looks.
local function put_aside(member, listed)
  local hashes, keys = remains_of(member)
  local kept = aside_key(int(now) .. ':task:' .. member)
  hashes[#hashes + 1] = defs_key
  for _, hash in ipairs(hashes) do
    redis.call('HSET', kept, hash, redis.call('HGET', hash, member) or '')
    redis.call('HDEL', hash, member)
  end
  for set, score in pairs(listed) do
    redis.call('HSET', kept, set, score)
    redis.call('ZREM', set, member)
  end
  redis.call('PEXPIRE', kept, ASIDE_KEPT)
  for _, key in ipairs(keys) do
    local to = aside_key(int(now) .. (key == log_key(member) and ':log:' or ':attempts:') .. member)
    redis.call('RENAME', key, to)
    redis.call('PEXPIRE', to, ASIDE_KEPT)
  end
end

