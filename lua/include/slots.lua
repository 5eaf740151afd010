-- slots: what a claim may take of limits. The partition has a cap for each limit: how many of its tasks may hold a
-- slot. The leader tells what the home of the limit has granted it beyond.
-- needs: arg caps, arg rules
-- includes: changes, number, limits

local slots, slot_names = {}, {} -- by limit: its version, cap, tokens, and how many slots are free; and their names

-- read_slots raises the cap of each limit to what the leader was granted, if nothing has changed the cap since. The
-- lines of caps have the limit, the version for which it was granted, how many slots, and tokens: -1 without a rate.
local function read_slots()
  local grants = {}
  for limit, version, count, tokens in string.gmatch(caps, '(%S+) (%d+) (%d+) (%S+)\n') do
    slot_names[#slot_names + 1] = limit
    grants[limit] = { version = tonumber(version), count = tonumber(count), tokens = tonumber(tokens) }
  end
  local found = #slot_names > 0 and redis.call('HMGET', caps_key, '@', unpack(slot_names)) or {}
  local newest = tonumber(found[1] or 0)
  for i, limit in ipairs(slot_names) do
    local version, cap, tokens = string.match(found[i + 1] or '', '^(%d+) (%d+) (%d+)$')
    local grant = grants[limit]
    local slot = { version = tonumber(version or 0), cap = tonumber(cap or 0), tokens = tonumber(tokens or 0) }
    slot.is_rated = grant.tokens >= 0
    if slot.version == grant.version and (grant.count > slot.cap or grant.tokens > 0) then
      newest = newest + 1
      slot.cap, slot.tokens = math.max(slot.cap, grant.count), slot.tokens + math.max(grant.tokens, 0)
      slot.version, slot.has_changed = newest, true
    end
    slot.free = slot.cap - redis.call('SCARD', holds_key(limit))
    slots[limit] = slot
  end
  if newest > tonumber(found[1] or 0) then
    set_later(caps_key, '@', int(newest))
  end
end

if caps ~= '' then
  read_slots()
end

-- take_slots takes a slot of each limit of a task, and a token of each that has a rate. It returns false, and takes
-- none, if one of them has none. limits is nil or false for none.
local function take_slots(limits)
  for _, limit in ipairs(list_of(limits)) do
    local slot = slots[limit]
    if not slot or slot.free < 1 or slot.is_rated and slot.tokens < 1 then
      return false
    end
  end
  for _, limit in ipairs(list_of(limits)) do
    local slot = slots[limit]
    slot.free = slot.free - 1
    slot.tokens = slot.is_rated and slot.tokens - 1 or slot.tokens
    slot.has_changed = slot.has_changed or slot.is_rated
  end
  return true
end

-- hold_slots has a task hold a slot of each limit.
local function hold_slots(member, limits)
  for _, limit in ipairs(list_of(limits)) do
    add_later(holds_key(limit), member)
  end
end

-- waiting_behind returns how many tasks wait under a name if it is that of a lane with limits; else 0.
local function waiting_behind(name, more)
  local has_limits = rules ~= '' and string.find(name, '^%S+ %S+ %S+ %S+ ')
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
