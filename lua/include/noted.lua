-- noted: notes tasks that need a new row in the index of lists, for the leader, which packs the rows. While there is no
-- index, nothing is noted.
-- needs: arg wake
-- includes: number
-- finally: write_noted()

local noted = {}

-- note_row notes a task that waits from now on, or has ended.
local function note_row(member)
  noted[#noted + 1] = member
end

-- note_later notes a task that is due, waits, and was created with that record. One that was not due at once is noted
-- already.
local function note_later(member, due, record)
  if tonumber(due) <= (tonumber(string.sub(record, 1, 13)) or 0) then
    note_row(member)
  end
end

-- write_noted wakes the leader when there are some more to pack. So many that nobody packs them are given up: the
-- leader builds the index anew.
local function write_noted()
  if #noted == 0 then
    return
  end
  local length = redis.call('RPUSHX', listed_new_key, unpack(noted))
  if length > NOTED_LIMIT then
    redis.call('DEL', listed_new_key)
  elseif math.floor(length / NOTED_WAKE) > math.floor((length - #noted) / NOTED_WAKE) then
    redis.call('PUBLISH', wake, 'rows')
  end
end
