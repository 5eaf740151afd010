-- pack_rows: a leader writes segments of the index of lists, and removes others and the noted tasks that are packed in
-- them. Or it begins the index anew: without segments, and with no task noted.
-- includes: number, refuse, fence
-- keys:
--   lease   STRING  the script makes further keys of the same partition
--   listed  HASH
-- args:
--   fence     fence   that this leader got with the lease
--   revision  number  of the index that the caller read; 0 to begin it anew
--   built     text    how far the index is built from now on; "" as before
--   taken     number  noted tasks that are packed, from the oldest one
--   gone      text    the numbers of the segments to remove, separated by blanks
--   segments  (number text, summary text, rows text, labels text)*  that are new; labels: "" for none
-- reply:
--   revision  number  of the index from now on
-- refuses:
--   FENCED   another leader holds the lease of the partition, or none does
--   CHANGED  the index has another revision, or there is none
-- repeat: refused with CHANGED, because the first run wrote another revision; a new beginning begins once more
-- full: refused
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local first = revision > 0 and redis.call('LINDEX', listed_new_key(), 0)
if revision > 0 and tonumber(first or '') ~= revision then
  return refuse('CHANGED', first or '')
end

if revision == 0 then
  redis.call('DEL', listed, listed_rows_key(), listed_labels_key(), listed_new_key())
  redis.call('RPUSH', listed_new_key(), '1')
  redis.call('HSET', listed, '*', built)
  return { 1 }
end
redis.call('LTRIM', listed_new_key(), taken, -1)
redis.call('LSET', listed_new_key(), 0, int(revision + 1))
for number in string.gmatch(gone, '%S+') do
  redis.call('HDEL', listed, number)
  redis.call('HDEL', listed_rows_key(), number)
  redis.call('HDEL', listed_labels_key(), number)
end
for number, summary, rows, labels in segments() do
  redis.call('HSET', listed, number, summary)
  redis.call('HSET', listed_rows_key(), number, rows)
  if labels ~= '' then
    redis.call('HSET', listed_labels_key(), number, labels)
  end
end
if built ~= '' then
  redis.call('HSET', listed, '*', built)
end
return { revision + 1 }
