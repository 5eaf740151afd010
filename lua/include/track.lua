-- track: how the newest runs of a schedule ended, in fields of its hash. A run is the task of a tick, or of a
-- trigger. ends is "<how many ends were written> <end> <end>...", with the newest ENDS_CHUNK ends at most, the oldest
-- first. ends0 to ends3 have the ends before, as many in each: so an end writes few bytes. The chunk of that number,
-- from 0, is in the field of its remainder. An end is "<name>/<s, f or c><attempts>/<ms from the tick to the end>/<ms
-- that the last attempt took>"; the last number is missing if no attempt was running. The letter is a when a run that
-- had ended runs again: then the numbers say when.
-- includes: clock, number, fields, days

-- tick_time returns the time (ms) in the name of a tick or a trigger; nil for any other name.
local function tick_time(name)
  local year, month, day, hour, minute, second, fraction =
    string.match(name, '^(%d%d%d%d)(%d%d)(%d%d)T(%d%d)(%d%d)(%d%d)%.?(%d*)Z')
  if not year then
    return nil
  end
  local march = (month + 9) % 12 -- years that begin in March have their odd day at the end
  local years = month - 2 > 0 and tonumber(year) or year - 1
  local days = 365 * years + math.floor(years / 4) - math.floor(years / 100) + math.floor(years / 400) +
    math.floor((153 * march + 2) / 5) + day - 719469
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + tonumber(string.sub(fraction .. '000', 1, 3))
end

-- add_end returns the field ends with a further end. If the chunk is full, a new one begins, and the name of the
-- field for the full one follows, and its value.
local function add_end(ends, entry)
  local written, kept = string.match(ends or '', '^(%d+)( .+)$')
  written = tonumber(written or 0)
  local full = written > 0 and written % ENDS_CHUNK == 0
  ends = int(written + 1) .. (full and '' or kept or '') .. ' ' .. entry
  if full then
    return ends, 'ends' .. int((written / ENDS_CHUNK - 1) % ENDS_CHUNKS), string.sub(kept, 2)
  end
  return ends
end

-- note_end adds to changed, a list of fields and values, what an end of that name changes. fields has the fields ends
-- and tracked of the schedule. text is a state of the task; it has the number of the last attempt and, if that was
-- running, when it began.
local function note_end(changed, fields, name, tick, letter, text)
  local attempts, began = string.match(text, '^%a+ (%d+)'), string.match(text, '^%a+ %d+ %d+ %d+ %d+ %d+ (%d+)')
  local took = began and began ~= '0' and int(now - began) or ''
  local entry = name .. '/' .. letter .. (attempts or '0') .. '/' .. int(now - tick) .. '/' .. took
  local ends, chunk, full = add_end(fields.ends, entry)
  local n = #changed
  changed[n + 1], changed[n + 2], changed[n + 3], changed[n + 4] = 'ends', ends, chunk, full
  if not fields.tracked then
    changed[#changed + 1], changed[#changed + 2] = 'tracked', int(now)
  end
end

-- record_end returns the fields that change, and their values, when a run of that name ends in a state: final.
local function record_end(schedule_ref, fields, name, final, text)
  local tick, letter = tick_time(name), DAY_LETTERS[final]
  if not tick then
    return {}
  end
  local changed = add_to_days(schedule_ref, fields.day, { [string.sub(name, 1, 8)] = { [letter] = 1 } })
  note_end(changed, fields, name, tick, letter, text)
  if final == 'succeeded' then
    changed[#changed + 1], changed[#changed + 2] = 'succeeded', int(now)
  end
  return changed
end

-- record_again writes that a run which had ended in a state, final, runs again: that end counts no more.
local function record_again(schedule_ref, name, final, attempts)
  local fields, tick = read_fields(schedule_key(schedule_ref), { 'created', 'ends', 'tracked', 'day' }), tick_time(name)
  if fields.created and tick and DAY_LETTERS[final] then
    local changed = add_to_days(schedule_ref, fields.day, { [string.sub(name, 1, 8)] = { [DAY_LETTERS[final]] = -1 } })
    note_end(changed, fields, name, tick, 'a', 'scheduled ' .. attempts)
    redis.call('HSET', schedule_key(schedule_ref), unpack(changed))
  end
end
