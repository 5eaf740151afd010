-- types: which types of tasks a worker runs, and whether it runs a delivery. Neighbours mostly have the same type, so what begins as the
-- last one did is not taken apart.
-- needs: arg types
-- includes: nothing

-- runs returns whether a worker runs tasks of a type. types has its types, each of them between blanks; "" if it runs all.
local function runs(task_type)
  return types == '' or string.find(types, ' ' .. task_type .. ' ', 1, true) ~= nil
end

local last_msg, last_msg_end -- how the last one began that the worker runs, and where that ends

-- runs_delivery returns whether a worker runs a delivery in asynq's encoding: type and payload are its first fields, each of them a
-- tag, a length and its bytes. A type is shorter than 128 bytes, so its length is one byte. Every worker takes what leaders have not
-- enqueued, whose payload says when the attempt was claimed: tasks of other asynq clients are for none in particular.
local function runs_delivery(msg)
  if types == '' or last_msg and string.sub(msg, 1, last_msg_end) == last_msg then
    return true
  end
  local tag, length = string.byte(msg, 1, 2)
  if tag ~= 10 or length > 127 then
    return true
  end
  if runs(string.sub(msg, 3, length + 2)) then
    last_msg, last_msg_end = string.sub(msg, 1, length + 2), length + 2
    return true
  end
  return not string.find(string.sub(msg, length + 5, length + REFERENCE_LIMIT), ',"claimed_ms":', 1, true)
end
