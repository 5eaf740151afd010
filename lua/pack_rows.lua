-- pack_rows: a leader writes segments of the index of lists, and removes others and the noted tasks that are packed in
-- them. The rows of a segment that is removed stay until the leader sweeps them, as lists may still read them. Or it
-- begins the index anew, without segments and with no task noted, or removes it. The revision of a new index is the
-- time, so that no reader takes it for an earlier one.
-- includes: clock, number, refuse, fence
-- keys:
--   lease   STRING  the script makes further keys of the same partition
--   listed  HASH
-- args:
--   fence     fence   that this leader got with the lease
--   revision  number  of the index that the caller read; 0 to begin it anew, or to remove it
--   built     text    how far the index is built from now on; "" as before or, with revision 0, to remove it
--   taken     number  noted tasks that are packed, from the oldest one
--   gone      text    the numbers of the segments to remove, separated by blanks
--   swept     text    the numbers of removed segments whose rows and labels are deleted, separated by blanks
--   blocks    (segment text, place text, rows text, summary text, labels text)*  that are new; the first one of a
--                     segment has its summary and its labels, and others ""; labels: "" for none
-- reply:
--   revision  number  of the index from now on; 0 if it is removed
-- refuses:
--   FENCED   another leader holds the lease of the partition, or none does
--   CHANGED  the index has another revision, or there is none
-- repeat: refused with CHANGED, because the first run wrote another revision; a new beginning begins once more
-- full: refused
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end
local term = string.match(fence, '^%d+')
local first = revision > 0 and redis.call('LINDEX', listed_new_key, 0)
if revision > 0 and tonumber(first or '') ~= revision then
  return refuse('CHANGED', first or '')
end

if revision == 0 then
  redis.call('DEL', listed, listed_rows_key, listed_labels_key, listed_new_key)
  if built == '' then
    return { 0 }
  end
  redis.call('RPUSH', listed_new_key, int(now))
  redis.call('HSET', listed, '*', built, '@', term)
  return { now }
end
redis.call('LTRIM', listed_new_key, taken, -1)
redis.call('LSET', listed_new_key, 0, int(revision + 1))
for number in string.gmatch(gone, '%S+') do
  redis.call('HDEL', listed, number)
end
for number in string.gmatch(swept, '%S+') do
  redis.call('HDEL', listed_labels_key, number)
  local places = {}
  for place = 1, LISTED_BLOCKS do
    places[place] = number .. '.' .. place - 1
  end
  redis.call('HDEL', listed_rows_key, unpack(places))
end
for segment, place, rows, summary, labels in blocks() do
  redis.call('HSET', listed_rows_key, segment .. '.' .. place, rows)
  if summary ~= '' then
    redis.call('HSET', listed, segment, summary)
  end
  if labels ~= '' then
    redis.call('HSET', listed_labels_key, segment, labels)
  end
end
redis.call('HSET', listed, '@', term)
if built ~= '' then
  redis.call('HSET', listed, '*', built)
end
return { revision + 1 }
