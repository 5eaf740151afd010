-- error_event: the error in an event.
-- includes: nothing

-- error_of returns the JSON member of an event for an error; '' for none.
local function error_of(reason)
  return reason ~= '' and ',"error":' .. cjson.encode(reason) or ''
end
