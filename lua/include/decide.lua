-- decide: what becomes of a submission with a key.
-- includes: clock

-- decide returns what becomes of a submission: the outcome; of which task: front, behind, new, or after, a new one
-- that waits for the end of the front; when that is due, in ms, nil to leave it as it is; and whether the front is
-- to be stopped. o has the mode, wait, max, every and drop, and due: when the submission is. front is what the
-- front does: wait, stay (in its queue, or between attempts), run, or nil; behind is whether one waits.
local function decide(o, front, behind, known)
  if o.mode == 'throttle' then
    if known.upcoming <= now then
      return 'created', 'new', now
    elseif o.drop or known.upcoming > now + HORIZON_LIMIT then
      return 'skipped', 'front'
    end
    return 'delayed', 'new', known.upcoming
  elseif o.mode == 'debounce' then
    local due = now + o.wait
    if front == 'wait' then
      local first = known.first > 0 and known.first or now
      return 'replaced', 'front', o.max > 0 and math.min(due, first + o.max) or due
    elseif behind then
      return 'replaced', 'behind'
    end
    return 'created', 'new', due
  elseif o.mode == 'singleton' then
    if front then
      return 'existing', 'front'
    elseif behind then
      return 'existing', 'behind'
    end
    return 'created', 'new', o.due
  end
  local stop = o.mode == 'cancel_running' and front ~= nil and front ~= 'wait'
  if behind then
    return 'replaced', 'behind', nil, stop
  elseif front == 'wait' then
    return 'replaced', 'front', nil, false
  elseif front == 'run' or front == 'stay' and not stop then
    return 'delayed', 'after', now + HORIZON_LIMIT, stop
  end
  return 'created', 'new', now, stop
end
