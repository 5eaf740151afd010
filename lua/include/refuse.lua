-- refuse: refuses a call, or a part of it.
-- includes: nothing

-- refuse makes the error reply whose first word is a code that the header of the script lists.
local function refuse(code, detail)
  return redis.error_reply(code .. ' ' .. (detail or ''))
end

