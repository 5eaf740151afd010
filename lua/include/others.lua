-- others: looks at tasks that nobody served and that have no name of their own. Those that somebody serves now go on. A
-- claim looks at a part of them, in order of their due times, and says where the next one goes on.
-- needs: arg others, arg limit
-- includes: changes, lanes, choice

local next_other = '' -- where the next claim goes on; '' at the end

-- first_other returns the rank of the first task to look at. If the last one is gone, some are looked at twice.
local function first_other(set)
  local due, last = string.match(others, '^(%d+) (.*)$')
  local rank = redis.call('ZRANK', set, last)
  return rank and rank + 1 or redis.call('ZCOUNT', set, '-inf', '(' .. due)
end

-- look_at_others looks at up to limit tasks.
local function look_at_others()
  local set = ready_key(OTHERS)
  local from = first_other(set)
  local found = redis.call('ZRANGE', set, from, from + limit - 1, 'WITHSCORES')
  local names, stay = {}, from
  for i = 1, #found, 2 do
    names[#names + 1] = found[i]
  end
  next_other = #names == limit and others or ''
  local known = #names > 0 and redis.call('HMGET', defs_key(), unpack(names)) or {}
  for i, member in ipairs(names) do
    local name, unserved = nil, false
    if known[i] then
      name, unserved = name_of(known[i])
    end
    if unserved then
      stay = stay + 1
      next_other = next_other ~= '' and found[2 * i] .. ' ' .. member or ''
    else
      remove_later(set, member)
    end
    if name and not unserved then
      choose_or_leave(name, member, found[2 * i], known[i], limit)
    end
  end
  if #names < limit and stay == 0 then
    redis.call('SREM', backlog_key(), OTHERS)
  end
end
