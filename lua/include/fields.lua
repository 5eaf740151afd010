-- fields: several fields of a hash by name.
-- includes: nothing

-- read_fields reads fields of a hash into a table; fields that do not exist are nil in it.
local function read_fields(hash, names)
  local fields = {}
  for i, value in ipairs(redis.call('HMGET', hash, unpack(names))) do
    fields[names[i]] = value or nil
  end
  return fields
end

