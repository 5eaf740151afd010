-- events: tells whoever listens what happened to a task.
-- needs: arg events
-- includes: clock, number

-- head returns the part of a definition that describes the task; the payload follows after the first line break.
local function head(def)
  return string.sub(def, 1, string.find(def, '\n', 1, true) - 1)
end

-- announce publishes what happened to a task ("namespace:id"). more is "" or further JSON members that begin with a
-- comma. Ids, states and nodes have no characters that JSON must escape.
local function announce(kind, member, state, attempt, node, def, more)
  redis.call('PUBLISH', events, '{"type":"task.' .. kind .. '","ref":"' .. member .. '","state":"' .. state ..
    '","attempt":' .. attempt .. ',"node":"' .. (node or '') .. '","at":' .. int(now) .. ',"head":' .. head(def) ..
    more .. '}')
end

