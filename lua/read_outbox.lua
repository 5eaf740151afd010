-- read_outbox: reads what the outbox of a partition has that is due, oldest first.
-- includes: clock
-- keys:
--   outbox  ZSET
-- args:
--   limit  number  maximum number of entries
-- reply:
--   now      time
--   next     time                  of the first entry that was not read; none if there is none
--   entries  (entry text, at time)*
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads
local found = redis.call('ZRANGE', outbox, 0, limit, 'WITHSCORES')
local entries, upcoming = {}, false
for i = 1, #found, 2 do
  local at = tonumber(found[i + 1])
  if at > now or #entries == 2 * limit then
    upcoming = at
    break
  end
  entries[#entries + 1], entries[#entries + 2] = found[i], at
end
return { now, upcoming, entries }
