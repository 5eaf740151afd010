-- home: what the home of a limit knows of the partitions that use it.
-- needs: arg number, arg wakes
-- includes: clock, number

local me, fresh = int(number), now - ASKED_FRESH

-- read_use returns what is known of each partition that uses a limit, by number, and what all may use.
local function read_use(key)
  local uses, sum, all = {}, 0, redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local version, count, tokens, since, asked = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    if version then
      since = tonumber(asked) >= fresh and tonumber(since) or 0
      uses[all[i]] = { version = tonumber(version), count = tonumber(count), tokens = tonumber(tokens), since = since }
      sum = sum + tonumber(count)
    end
  end
  return uses, sum
end

-- before returns how many partitions have waited longer than one, and how many others wait.
local function before(uses, own)
  local longer, others = 0, 0
  for other, use in pairs(uses) do
    if other ~= me and use.since > 0 then
      others = others + 1
      local first = own.since == 0 or use.since < own.since or use.since == own.since and tonumber(other) < number
      longer = longer + (first and 1 or 0)
    end
  end
  return longer, others
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
