-- types: which types of tasks a worker runs, and which type a delivery has.
-- needs: arg types
-- includes: nothing

-- runs returns whether a worker runs tasks of a type. types has its types, each of them between blanks; "" if it runs all.
local function runs(task_type)
  return types == '' or string.find(types, ' ' .. task_type .. ' ', 1, true) ~= nil
end

-- runs_delivery returns whether a worker runs a delivery in asynq's encoding: type and payload are its first fields, each of them a
-- tag, a length and its bytes. A type is shorter than 128 bytes, so its length is one byte. Every worker takes what leaders have not
-- enqueued, whose payload says when the attempt was claimed: tasks of other asynq clients are for none in particular.
local function runs_delivery(msg)
  local tag, length = string.byte(msg, 1, 2)
  if types == '' or tag ~= 10 or length > 127 or runs(string.sub(msg, 3, length + 2)) then
    return true
  end
  return not string.find(string.sub(msg, length + 5, length + REFERENCE_LIMIT), ',"claimed_ms":', 1, true)
end
