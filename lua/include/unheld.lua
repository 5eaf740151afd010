-- unheld: tasks whose states say that they hold slots of limits, and that hold none.
-- includes: clock, number, state, findings, damage, holder

-- holds_slot returns whether the state of a task says that it holds at least that many slots of a limit.
local function holds_slot(text, limit, number)
  local is_live = string.find(text, '^queued ') or string.find(text, '^running ')
  local limits = is_live and limits_in(text) or ''
  return number <= cost_in(limits) and string.find(',' .. limits .. ',', ',' .. limit .. ',', 1, true) ~= nil
end

local function are_holders(list, limit)
  for _, holds in ipairs(redis.call('SMISMEMBER', holds_key(limit), unpack(list))) do
    if holds == 0 then
      return false
    end
  end
  return true
end

-- hold_slots_again has a task hold its slots. A key of the wrong type is put aside in the same moment.
local function hold_slots_again(list, limit)
  local key = holds_key(limit)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'set' and kind ~= 'none' then
    local kept = aside_key(int(now) .. ':holds:' .. limit)
    redis.call('RENAME', key, kept)
    redis.call('PEXPIRE', kept, ASIDE_KEPT)
  end
  redis.call('SADD', key, unpack(list))
end

-- find_unheld finds that a task with that state lacks slots.
local function find_unheld(member, text)
  local limits = text and limits_in(text) or ''
  for limit in string.gmatch(limits, LIMIT) do
    local list = holders_of(member, limits)
    if holds_slot(text, limit, 1) and not try(are_holders, list, limit) and
        report(member, 'slot-lost', 'is ' .. string.match(text, '^%a+') .. ', and not in ' .. holds_key(limit)) then
      hold_slots_again(list, limit)
    end
  end
end
