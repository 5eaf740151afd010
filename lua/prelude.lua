-- prelude: stands in front of every script. It defines local functions only and changes nothing by itself.

-- now_ms is Redis's time in ms: the one clock. Scripts call it once.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- int writes a number as an integer: Lua's own way to join numbers and strings loses digits from 1e14 on.
local function int(n)
  return string.format('%.0f', n)
end

-- refuse answers with an error whose first word is a code that the script's header lists.
local function refuse(code, detail)
  return redis.error_reply(code .. ' ' .. (detail or ''))
end

-- head is the part of a definition that describes the task; the payload follows after the first line break.
local function head(def)
  return string.sub(def, 1, string.find(def, '\n', 1, true) - 1)
end

-- announce publishes what became of a task. member is "namespace:id". more is "" or further JSON members
-- that begin with a comma. Ids, states and nodes cannot contain anything that JSON would have to escape.
local function announce(channel, kind, member, state, attempt, node, now, def, more)
  redis.call('PUBLISH', channel, '{"type":"task.' .. kind .. '","ref":"' .. member .. '","state":"' .. state ..
    '","attempt":' .. attempt .. ',"node":"' .. (node or '') .. '","at":' .. int(now) .. ',"head":' .. head(def) ..
    more .. '}')
end

-- record_attempt appends the end of an attempt to the task's history and keeps the newest of them.
local function record_attempt(attempts, number, node, started, now, outcome, err, keep)
  redis.call('RPUSH', attempts, cjson.encode({
    number = tonumber(number), node = node, started = tonumber(started), finished = now,
    outcome = outcome, error = err }))
  redis.call('LTRIM', attempts, -keep, -1)
end
