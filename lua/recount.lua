-- recount: has the cap of a limit in a partition be the number of tasks that hold a slot. So a leader begins, gives
-- back what is free, and begins anew after a loss of writes. A limit whose holders cannot be counted, as their key is
-- damaged, keeps its cap.
-- includes: number, refuse, fence, damage
-- keys:
--   lease  STRING  the script makes further keys of the same partition
-- args:
--   fence   fence    that this leader got with the lease
--   limits  (limit text, least number, known number)*  least: the version must be greater than this; known: -1, or
--     the version for which the home knows that the cap is 0: if it is the present one, what there is of the limit is
--     deleted
-- reply:
--   caps  (limit text, version number, cap number, tokens number)*  of each limit; 0 of those that were deleted
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the cap has a newer version then
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local newest = tonumber(redis.call('HGET', caps_key, '@') or 0) or 0
local caps = {}
for limit, least, known in limits() do
  local version, cap, tokens = string.match(redis.call('HGET', caps_key, limit) or '', '^(%d+) (%d+) (%d+)$')
  local holders = try(redis.call, 'SCARD', holds_key(limit)) or tonumber(cap or 0)
  if known == tonumber(version) and holders == 0 then
    redis.call('HDEL', caps_key, limit)
    version, tokens = 0, 0
  else
    newest = math.max(newest, least, tonumber(version or 0)) + 1
    version, tokens = newest, tonumber(tokens or 0)
    redis.call('HSET', caps_key, '@', int(newest), limit, int(newest) .. ' ' .. holders .. ' ' .. int(tokens))
  end
  for _, value in ipairs({ limit, version, holders, tokens }) do
    caps[#caps + 1] = value
  end
end
return { caps }
