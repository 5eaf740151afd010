-- wheel: schedules tasks.
-- needs: arg wake
-- includes: number, wakes
-- finally: turn_wheel()

local scheduled, is_scheduled = {}, {}
local last_due, last_due_text -- neighbours mostly have the same one

-- put_on_wheel schedules a task for due (ms). is_moved says that a node has given it up, so that another one goes on.
local function put_on_wheel(member, due, is_moved)
  if due ~= last_due then
    last_due, last_due_text = due, int(due)
  end
  scheduled[#scheduled + 1] = is_moved and string.format('%.1f', due - MOVED_MARK) or last_due_text
  scheduled[#scheduled + 1] = member
  is_scheduled[member] = true
end

-- turn_wheel writes the entries, and wakes the leader if one of them is the first.
local function turn_wheel()
  if #scheduled == 0 then
    return
  end
  redis.call('ZADD', wheel_key, unpack(scheduled))
  if is_scheduled[redis.call('ZRANGE', wheel_key, 0, 0)[1]] then
    wake_leader('task')
  end
end

