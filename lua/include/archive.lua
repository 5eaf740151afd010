-- archive: keeps the dead letters of a queue within asynq's limits.
-- needs: key archived
-- includes: clock, number

-- delete_archived deletes dead letters.
local function delete_archived(ids)
  for i = 1, #ids do
    redis.call('DEL', delivery_key(ids[i]))
    redis.call('ZREM', archived, ids[i])
  end
  return #ids
end

-- trim_archive deletes dead letters that are too old or too many, up to 100 of each. It returns how many.
local function trim_archive()
  local old = int(now / 1000 - ARCHIVE_KEEP)
  local deleted = delete_archived(redis.call('ZRANGE', archived, '-inf', old, 'BYSCORE', 'LIMIT', 0, 100))
  local extra = math.min(redis.call('ZCARD', archived) - ARCHIVE_LIMIT, 100)
  if extra > 0 then
    deleted = deleted + delete_archived(redis.call('ZRANGE', archived, 0, extra - 1))
  end
  return deleted
end
