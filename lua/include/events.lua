-- events: publishes what happens to tasks, in one message, if somebody follows events.
-- needs: arg events
-- includes: clock, number, definition
-- finally: publish_events()

local followed = redis.call('EXISTS', listeners_key) == 1
local announced = {}

-- announce adds an event of a task ("namespace:id") with that stored definition. more is "", or further JSON members that
-- begin with a comma. Ids, states and nodes contain no characters that JSON must escape.
local function announce(kind, member, state, attempt, node, record, more)
  local head = followed and head_of(record) or ''
  if head ~= '' then
    announced[#announced + 1] = '{"type":"task.' .. kind .. '","ref":"' .. member .. '","state":"' .. state ..
      '","attempt":' .. attempt .. ',"node":"' .. node .. '","at":' .. int(now) .. ',"head":' .. head .. more .. '}'
  end
end

-- when_due returns the member of an event that says when a task is due: "" while it waits for another one with its key.
local function when_due(record, due)
  local ahead = due - (tonumber(string.sub(record, 1, 13)) or 0)
  if ahead == HORIZON_LIMIT and string.find(record, '"once":{', 14, true) then
    return ''
  end
  return ',"due":' .. int(due)
end

local function publish_events()
  if #announced > 0 then
    redis.call('PUBLISH', events, table.concat(announced, '\n'))
  end
end

