-- record_loss: records that Redis has lost writes that it had acknowledged in a span of time. Spans that touch become one.
-- includes: number
-- keys:
--   losses  LIST
-- args:
--   from  time
--   upto  time  when that was noticed
-- reply: nothing
-- refuses: nothing
-- repeat: harmless: the span is part of what is there
-- full: works
local entries = redis.call('LRANGE', losses, 0, -1)
local touched = {}
for _, entry in ipairs(entries) do
  local low, high = string.match(entry, '^(%d+) (%d+)$')
  if tonumber(low) <= upto and tonumber(high) >= from then
    from, upto = math.min(from, low), math.max(upto, high)
    touched[#touched + 1] = entry
  end
end
for _, entry in ipairs(touched) do
  redis.call('LREM', losses, 0, entry)
end
redis.call('LPUSH', losses, int(from) .. ' ' .. int(upto))
redis.call('LTRIM', losses, 0, LOSSES_LIMIT - 1)
return {}
