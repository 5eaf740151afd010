-- grants: what there is of limits in the partition. It has a cap for each limit: how many of its tasks may hold a slot.
-- The leader tells what the home of the limit has granted it beyond.
-- needs: arg caps
-- includes: changes, damage, number

local slots, slot_names = {}, {} -- by limit: its version, cap, tokens, and how many slots are free; and their names

-- raise raises the cap to what the leader was granted, if nothing has changed the cap since.
local function raise(slot, grant, newest)
  if slot.version == grant.version and (grant.count > slot.cap or grant.tokens > 0) then
    newest = math.max(newest, slot.version) + 1
    slot.cap, slot.tokens = math.max(slot.cap, grant.count), slot.tokens + math.max(grant.tokens, 0)
    slot.version, slot.has_changed = newest, true
  end
  return newest
end

-- read_slots reads what there is of the limits. The lines of caps have the limit, the version for which it was granted,
-- how many slots, and tokens: -1 without a rate. While a key is damaged, its limits have no free slot.
local function read_slots()
  local grants = {}
  for limit, version, count, tokens in string.gmatch(caps, '(%S+) (%d+) (%d+) (%S+)\n') do
    slot_names[#slot_names + 1] = limit
    grants[limit] = { version = tonumber(version), count = tonumber(count), tokens = tonumber(tokens) }
  end
  local found = #slot_names > 0 and try(redis.call, 'HMGET', caps_key, '@', unpack(slot_names))
  local known = tonumber(found and found[1] or 0) or 0
  local newest = known
  for i, limit in ipairs(slot_names) do
    local grant, holders = grants[limit], found and try(redis.call, 'SCARD', holds_key(limit))
    local slot = { version = grant.version, cap = grant.count, tokens = 0, free = 0 }
    slot.is_rated = grant.tokens >= 0
    if holders then
      local version, cap, tokens = string.match(found[i + 1] or '', '^(%d+) (%d+) (%d+)$')
      slot.version, slot.cap, slot.tokens = tonumber(version or 0), tonumber(cap or 0), tonumber(tokens or 0)
      newest = raise(slot, grant, newest)
      slot.free = slot.cap - holders
    end
    slots[limit] = slot
  end
  if newest > known then
    set_later(caps_key, '@', int(newest))
  end
end

if caps ~= '' then
  read_slots()
end
