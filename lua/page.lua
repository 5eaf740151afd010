-- page: reads a sorted set from its highest member down, starting below a given one. It writes nothing.
-- Redis sorts members of one score by name but cannot start a range between them, so the place is found by
-- halving the ranks of that score.
-- keys:
--   1 set  ZSET
-- args:
--   1 score   of the last member seen, or "" to start at the top
--   2 member  the last member seen
--   3 limit   members at most
-- reply: {member, score, ...}
-- refuses: nothing
-- repeat: harmless
local set = KEYS[1]
local score, member, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local from = 0
if score ~= '' then
  local low = redis.call('ZCOUNT', set, '(' .. score, '+inf')
  local high = low + redis.call('ZCOUNT', set, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZREVRANGE', set, middle, middle)[1] >= member then
      low = middle + 1
    else
      high = middle
    end
  end
  from = low
end
return redis.call('ZREVRANGE', set, from, from + limit - 1, 'WITHSCORES')
