-- unheld: tasks whose states say that they hold slots of limits, and that hold none.
-- includes: clock, number, state, findings, damage

-- holds_slot returns whether the state of a task says that it holds a slot of a limit.
local function holds_slot(text, limit)
  local is_live = string.find(text, '^queued ') or string.find(text, '^running ')
  return is_live and string.find(',' .. (limits_in(text) or '') .. ',', ',' .. limit .. ',', 1, true) ~= nil
end

local function is_holder(member, limit)
  return redis.call('SISMEMBER', holds_key(limit), member) == 1
end

-- hold_slot has a task hold a slot. A key of the wrong type is put aside in the same moment.
local function hold_slot(member, limit)
  local key = holds_key(limit)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'set' and kind ~= 'none' then
    local kept = aside_key(int(now) .. ':holds:' .. limit)
    redis.call('RENAME', key, kept)
    redis.call('PEXPIRE', kept, ASIDE_KEPT)
  end
  redis.call('SADD', key, member)
end

-- find_unheld finds that a task with that state lacks slots.
local function find_unheld(member, text)
  for limit in string.gmatch(text and limits_in(text) or '', '[^,]+') do
    if holds_slot(text, limit) and not try(is_holder, member, limit) and
        report(member, 'slot-lost', 'is ' .. string.match(text, '^%a+') .. ', and not in ' .. holds_key(limit)) then
      hold_slot(member, limit)
    end
  end
end
