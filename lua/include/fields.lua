-- fields: reads fields of a hash by name.
-- includes: nothing

-- read_fields returns a table of fields of a hash; fields that do not exist are nil.
local function read_fields(hash, names)
  local fields = {}
  for i, value in ipairs(redis.call('HMGET', hash, unpack(names))) do
    fields[names[i]] = value or nil
  end
  return fields
end

