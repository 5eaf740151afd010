-- bucket: the tokens of a rate, as of the generic cell rate algorithm (GCRA): one time says when the bucket is full
-- again. Bucket in internal/limit has the same rule in Go, without what is kept for others. A test compares both.
-- includes: clock, number

local LATER = 100 -- ms

-- take_tokens takes tokens of the limit with that key: as many as are wanted, but only a multiple of least, and none of
-- those that are kept for others. It returns how many it took, and when there are enough for a task: false for now. per
-- is in ms.
local function take_tokens(key, rate, per, burst, wanted, least, kept)
  local each, full = per / rate, math.max(tonumber(redis.call('HGET', key, '@') or 0), now)
  local size = burst * each
  local free = math.floor((size - (full - now)) / each + 1e-6)
  local taken = math.max(0, math.min(wanted, free - kept))
  taken = taken >= least and taken - taken % least or 0
  full = full + taken * each
  if taken > 0 then
    redis.call('HSET', key, '@', string.format('%.6f', full))
  end
  local needed = math.min(least + kept, burst)
  if free - taken < needed then
    return taken, math.ceil(full + needed * each - size)
  end
  return taken, taken == 0 and wanted > 0 and now + LATER or false -- those that come first have not come yet
end
