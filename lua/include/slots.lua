-- slots: what a claim takes of limits.
-- needs: arg caps, arg rules
-- includes: changes, number, grants, limits

-- take_slots takes the slots of each limit that a task needs, and as many tokens of each that has a rate. It returns
-- false, and takes none, if one of them has too few. limits is nil or false for none.
local function take_slots(limits)
  local list = list_of(limits)
  for _, limit in ipairs(list) do
    local slot = slots[limit]
    if not slot or slot.free < list.cost or slot.is_rated and slot.tokens < list.cost then
      return false
    end
  end
  for _, limit in ipairs(list) do
    local slot = slots[limit]
    slot.free = slot.free - list.cost
    slot.tokens = slot.is_rated and slot.tokens - list.cost or slot.tokens
    slot.has_changed = slot.has_changed or slot.is_rated
  end
  return true
end

-- hold_slots has a task hold its slots of each limit.
local function hold_slots(member, limits)
  for _, limit in ipairs(list_of(limits)) do
    for _, holder in ipairs(holders_of(member, limits)) do
      add_later(holds_key(limit), holder)
    end
  end
end

-- waiting_behind returns how many tasks wait under a name if it is that of a lane with limits; else 0.
local function waiting_behind(name, more)
  local has_limits = rules ~= '' and string.find(name, '^%S+ %S+ %S+ %S+ [^*]')
  return has_limits and redis.call('ZCARD', ready_key(name)) + (more or 0) or 0
end

-- write_slots writes what has changed. It returns what there is of each limit now.
local function write_slots()
  local list = {}
  for _, limit in ipairs(slot_names) do
    local slot = slots[limit]
    if slot.has_changed then
      set_later(caps_key, limit, int(slot.version) .. ' ' .. int(slot.cap) .. ' ' .. int(slot.tokens))
    end
    for _, value in ipairs({ limit, slot.version, slot.cap, slot.cap - slot.free, slot.tokens }) do
      list[#list + 1] = value
    end
  end
  return list
end
