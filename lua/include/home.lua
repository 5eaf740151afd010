-- home: what the home of a limit knows of the partitions that use it.
-- needs: arg number, arg wakes
-- includes: clock, number

local me, fresh = int(number), now - ASKED_FRESH

-- read_use returns what is known of each partition that uses a limit, by number, and what all may use.
local function read_use(key)
  local uses, sum, all = {}, 0, redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local version, count, tokens, since, asked, more =
      string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+) ?([%d ]*)$')
    if version then
      local least, starts, start, back = string.match(more, '^(%d+) (%d+) (%d+) (%d+)$')
      uses[all[i]] = {
        version = tonumber(version), count = tonumber(count), tokens = tonumber(tokens),
        since = tonumber(asked) >= fresh and tonumber(since) or 0, least = tonumber(least or 1),
        starts = tonumber(back or 0) >= fresh and tonumber(starts) or 0, start = tonumber(start or 1), back = 0,
      }
      sum = sum + tonumber(count)
    end
  end
  return uses, sum
end

-- write_use writes what is known of the partition that asks. The last four words are left out while they say nothing.
local function write_use(key, own)
  local fields = { int(own.version), int(own.count), int(own.tokens), int(own.since), int(now) }
  if own.starts > 0 or own.since > 0 and own.least > 1 then
    fields[6], fields[7], fields[8], fields[9] = int(own.least), int(own.starts), int(own.start), int(own.back)
  end
  redis.call('HSET', key, me, table.concat(fields, ' '))
end

-- kept returns how much the home keeps for the partitions that have waited longer than one, each the least that it can
-- use; and how many others wait. since and least are the names of fields: of those that wait for slots, or for tokens.
local function kept(uses, own, since, least)
  local sum, others = 0, 0
  for other, use in pairs(uses) do
    if other ~= me and use[since] > 0 then
      others = others + 1
      local first = own[since] == 0 or use[since] < own[since] or
        use[since] == own[since] and tonumber(other) < number
      sum = sum + (first and use[least] or 0)
    end
  end
  return sum, others
end

-- wake_others has leaders settle the limit: those that wait ('since'), as some slots are free now, or those that have
-- some ('count').
local function wake_others(uses, limit, who)
  for other, use in pairs(uses) do
    if other ~= me and use[who] > 0 then
      redis.call('PUBLISH', (string.gsub(wakes, '%*', other)), 'settle ' .. limit)
    end
  end
end
