-- refuse: the answer "no".
-- includes: nothing

-- refuse answers with an error whose first word is a code that the script's header lists.
local function refuse(code, detail)
  return redis.error_reply(code .. ' ' .. (detail or ''))
end

