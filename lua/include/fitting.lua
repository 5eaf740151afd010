-- fitting: which tasks a worker runs.
-- needs: arg types
-- includes: types, definition

local last_start, last_queue, last_end -- how the last record began that fits, for which queue, and where that ends

-- runs_task returns whether a worker runs a task with that stored definition, and the task is in a queue; '' is any
-- queue. The comparison includes 4 characters behind the type, so that `,"queue"` is noticed.
local function runs_task(record, queue)
  if queue == last_queue and string.sub(record, 14, last_end) == last_start then
    return true
  end
  local task_type, own, stop = read_type_and_queue(record, 14)
  if not runs(task_type or '') or queue ~= '' and queue ~= own then
    return false
  end
  if task_type then
    last_start, last_queue, last_end = string.sub(record, 14, stop + 3), queue, stop + 3
  end
  return true
end
