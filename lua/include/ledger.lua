-- ledger: the record of every tick of a schedule. member is the schedule's "namespace:id".
-- needs: arg member
-- includes: clock, number, packed, trim, tally

-- recorded lists what this run of the script recorded: name, outcome, name, outcome and so on.
local recorded = {}

-- record_tick records the outcome of a tick (ms), in place of the record of the same name. has_task is 1 if the tick has a
-- task, else 0; late is in ms, nil to keep the lateness of the earlier record. When all is recorded, call trim_ledger. Ticks that get no task
-- are counted by day.
local function record_tick(revision, tick, name, outcome, has_task, late, reason)
  load_size()
  recorded[#recorded + 1] = name
  recorded[#recorded + 1] = outcome
  tick = tonumber(tick)
  if has_task == 0 then
    tally(name, tick, outcome, 1)
  end
  size, oldest = size + 1, math.min(oldest, tick)
  local on_time = outcome == 'fired' and has_task == 1 and reason == '' and late and late >= 0 and late == now - tick
  if on_time and in_chunk(name) and append_on_time(revision, tick, late) then
    return
  end
  local ledger = ledger_key(member)
  local nearest, first, around = nearest_member(member, tick)
  local late_before = around and make_room(nearest, first, tick, name)
  for _, entry in ipairs(first == tick and redis.call('ZRANGE', ledger, int(tick), int(tick), 'BYSCORE') or {}) do
    local entry_name, entry_late = string.match(entry, '^(%S+) %S+ %d (%S+) ')
    if entry_name == name then
      redis.call('ZREM', ledger, entry)
      late_before = entry_late
    end
  end
  size = late_before and size - 1 or size
  redis.call('ZADD', ledger, int(tick), name .. ' ' .. outcome .. ' ' .. has_task .. ' ' .. int(late or late_before or 0) .. ' ' ..
    int(now) .. ' ' .. revision .. ' ' .. reason)
end
