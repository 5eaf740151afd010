-- release: the holder of a lease gives it back before its time, and tells those who wait for it.
-- keys:
--   1 lease  STRING  "<token>:<owner>", expires with the lease
-- args:
--   1 fence    what the holder knows the lease to be: "<token>:<owner>"
--   2 channel  where to tell, "" for nowhere
--   3 message  what to tell
-- reply: 1 if the lease was given back, 0 if it was not the caller's any more
-- refuses: nothing
-- repeat: harmless: the lease is not the caller's any more.

local lease = KEYS[1]
local fence, channel, message = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', lease) ~= fence then
  return 0
end

redis.call('DEL', lease)
if channel ~= '' then
  redis.call('PUBLISH', channel, message)
end
return 1
