-- bucket: the tokens of a rate, as of the generic cell rate algorithm (GCRA): one time says when the bucket is full
-- again. Bucket in internal/limit is the same in Go, and a test compares both.
-- includes: clock, number

-- take_tokens takes up to so many tokens of a limit, whose key that is. It returns how many it took, and when there is
-- a further one, false if there is one now. per is in ms.
local function take_tokens(key, rate, per, burst, wanted)
  local each, full = per / rate, math.max(tonumber(redis.call('HGET', key, '@') or 0), now)
  local size = burst * each
  local free = math.floor((size - (full - now)) / each + 1e-6)
  local taken = math.max(0, math.min(wanted, free))
  full = full + taken * each
  if taken > 0 then
    redis.call('HSET', key, '@', string.format('%.6f', full))
  end
  return taken, taken >= free and math.ceil(full + each - size) or false
end
