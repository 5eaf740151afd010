-- read_page: reads a sorted set in descending order, starting after a given member.
-- Redis sorts members of one score by name but cannot start a range between them, so the script finds the rank by binary
-- search among the members of that score.
-- includes: nothing
-- keys:
--   zset  ZSET
-- args:
--   score   text    of the last member read, "" to start with the highest
--   member  text    the last member read
--   limit   number  maximum number of members
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
