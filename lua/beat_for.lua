-- beat_for: records that workers are alive which reach Redis through the node that calls.
-- includes: clock, number
-- keys:
--   nodes  HASH
-- args:
--   dead     ms  without a beat after which a worker counts as dead
--   members  channel
--   guests   (id node, entry text)*  the workers, and their descriptions of themselves
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: it records a later beat
-- full: works
for id, entry in guests() do
  local before = redis.call('HGET', nodes, id)
  redis.call('HSET', nodes, id, int(now) .. ' ' .. entry)
  if not before or now - (tonumber((string.match(before, '^%d+'))) or 0) > dead then
    redis.call('PUBLISH', members, 'join ' .. id .. ' ' .. int(now))
  end
end
return {}
