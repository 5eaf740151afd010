-- asked: which requests with a key have run something of a schedule. member is its "namespace:id".
-- needs: arg member
-- includes: clock, number

-- asked_before returns when (ms) a request for that with that key ran something, and the name that was noted; nil if
-- there was none within ASKED_FOR.
local function asked_before(operation, key)
  local noted = key ~= '' and redis.call('HGET', asked_key(member), operation .. ' ' .. key) or ''
  local at, name = string.match(noted, '^(%d+) (%S*)$')
  if at and tonumber(at) > now - ASKED_FOR then
    return tonumber(at), name
  end
end

-- drop_oldest_asked makes room for further keys.
local function drop_oldest_asked()
  local keys, at = {}, {}
  local noted = redis.call('HGETALL', asked_key(member))
  for i = 1, #noted, 2 do
    keys[#keys + 1] = noted[i]
    at[noted[i]] = tonumber((string.match(noted[i + 1], '^%d+'))) or 0
  end
  table.sort(keys, function(a, b) return at[a] < at[b] end)
  redis.call('HDEL', asked_key(member), unpack(keys, 1, ASKED_DROPPED))
end

-- note_asked notes that a request with that key ran something at that time (ms).
local function note_asked(operation, key, at, name)
  if key == '' then
    return
  end
  redis.call('HSET', asked_key(member), operation .. ' ' .. key, int(at) .. ' ' .. name)
  redis.call('PEXPIRE', asked_key(member), ASKED_FOR)
  if redis.call('HLEN', asked_key(member)) > ASKED_LIMIT then
    drop_oldest_asked()
  end
end
