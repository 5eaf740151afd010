-- read_page: reads sorted sets of one partition in descending order, as if they were one, starting after a given member.
-- Redis sorts members of one score by name but cannot start a range between them, so the script finds the rank by binary
-- search among the members of that score. It reads the first member of each set, and more only of sets whose first one is among
-- the highest: twice as many each time.
-- includes: bytes
-- keys:
--   zset  ZSET  one of the sets
-- args:
--   score   text    of the last member read, "" to start with the highest
--   member  text    the last member read
--   limit   number  maximum number of members
--   others  text*   the keys of the other sets
-- reply:
--   entries  (member text, score text)*
-- refuses: nothing
-- repeat: harmless: it only reads
-- full: reads

-- after_member is first_of for a set with members of the score of the last member read.
local function after_member(key)
  local low = redis.call('ZCOUNT', key, '(' .. score, '+inf')
  local high = low + redis.call('ZCOUNT', key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_less(redis.call('ZREVRANGE', key, middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  return redis.call('ZREVRANGE', key, low, low, 'WITHSCORES')
end

-- first_of returns the first member of a set to read, with its score.
local function first_of(key)
  local highest = score == '' and '+inf' or score
  local first = redis.call('ZRANGE', key, highest, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if first[1] and tonumber(first[2]) == tonumber(score) and not is_less(first[1], member) then
    return after_member(key)
  end
  return first
end

-- is_lower returns whether the member at which a set is comes after that of another.
local function is_lower(set, other)
  return set.score < other.score or set.score == other.score and is_less(set.member, other.member)
end

local sets = {} -- those that have members left, the one that is at the highest last

-- put adds a set that is at the member i of what was read of it, unless it has no more.
local function put(set, i)
  set.i, set.member, set.score = i, set.read[i], tonumber(set.read[i + 1])
  if not set.member then
    return
  end
  local low, high, middle = 1, #sets + 1, #sets -- it is often at the highest again
  while low < high do
    if is_lower(sets[middle], set) then
      low = middle + 1
    else
      high = middle
    end
    middle = math.floor((low + high) / 2)
  end
  table.insert(sets, low, set)
end

-- read_more reads the members of a set that come after those that were read.
local function read_more(set)
  local rank = redis.call('ZREVRANK', set.key, set.member)
  set.read = redis.call('ZREVRANGE', set.key, rank + 1, rank + #set.read, 'WITHSCORES')
end

put({ key = zset, read = first_of(zset) }, 1)
for key in others() do
  put({ key = key, read = first_of(key) }, 1)
end
local entries = {}
while #entries < 2 * limit and #sets > 0 do
  local set = table.remove(sets)
  entries[#entries + 1] = set.member
  entries[#entries + 1] = set.read[set.i + 1]
  if set.i + 2 < #set.read then
    put(set, set.i + 2)
  else
    read_more(set)
    put(set, 1)
  end
end
return { entries }
