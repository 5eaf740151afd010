-- events: publishes what happens to tasks.
-- needs: arg events
-- includes: clock, number

-- head returns the first line of a definition, which has everything but the payload.
local function head(def)
  return string.sub(def, 1, string.find(def, '\n', 1, true) - 1)
end

-- announce publishes an event of a task ("namespace:id"). more is "", or further JSON members that begin with a comma.
-- Ids, states and nodes contain no characters that JSON must escape.
local function announce(kind, member, state, attempt, node, def, more)
  redis.call('PUBLISH', events, '{"type":"task.' .. kind .. '","ref":"' .. member .. '","state":"' .. state ..
    '","attempt":' .. attempt .. ',"node":"' .. (node or '') .. '","at":' .. int(now) .. ',"head":' .. head(def) ..
    more .. '}')
end

