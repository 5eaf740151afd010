-- read_page: reads a sorted set from its highest member down, starting below a given one.
-- Redis sorts members of one score by name but cannot start a range between them, so the place is found by halving the
-- ranks of that score.
-- includes: nothing
-- keys:
--   zset  ZSET
-- args:
--   score   text    of the last member seen, "" to start at the top
--   member  text    the last member seen
--   limit   number  members at most
-- reply:
--   entries  (member text, score number)*
-- refuses: nothing
-- repeat: harmless: it only reads
local from = 0
if score ~= '' then
  local low = redis.call('ZCOUNT', zset, '(' .. score, '+inf')
  local high = low + redis.call('ZCOUNT', zset, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZREVRANGE', zset, middle, middle)[1] >= member then
      low = middle + 1
    else
      high = middle
    end
  end
  from = low
end
return { redis.call('ZREVRANGE', zset, from, from + limit - 1, 'WITHSCORES') }
