-- track: how the newest runs of a schedule ended, in fields of its hash. A run is the task of a tick, or of a
-- trigger. ends is "<how many ends were written> <end> <end>...", with the newest ENDS_CHUNK ends at most, the oldest
-- first. ends0 to ends3 have the ends before, as many in each: so an end writes few bytes. The chunk of that number,
-- from 0, is in the field of its remainder. An end is "<name>/<s, f or c><attempts>/<ms from the tick to the end>/<ms
-- that the last attempt took>"; the last number is missing if no attempt was running. The letter is a when a run that
-- had ended runs again: then the numbers say when.
-- includes: clock, number, fields, days, tick_of

-- is_own returns whether a task was created since its schedule was. The tasks of a deleted schedule may outlive it,
-- and another schedule may have its name.
local function is_own(created, member)
  return tonumber(created) <= (tonumber(string.sub(redis.call('HGET', defs_key, member) or '', 1, 13)) or 0)
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

-- record_again writes that a task which had ended in a state, final, at that time (ms), runs again: that end counts no
-- more. Nodes of earlier releases, and schedules of that name that were deleted, have not counted it here.
local function record_again(member, final, ended, attempts)
  local schedule_ref, name = tick_of(member)
  local tick = name and tick_time(name)
  if not tick or not DAY_LETTERS[final] then
    return
  end
  local fields = read_fields(schedule_key(schedule_ref), { 'created', 'ends', 'tracked', 'day' })
  if not fields.created or not is_counted(fields.tracked, ended) or not is_own(fields.created, member) then
    return
  end
  local changed = add_to_days(schedule_ref, fields.day, { [string.sub(name, 1, 8)] = { [DAY_LETTERS[final]] = -1 } })
  note_end(changed, fields, name, tick, 'a', 'scheduled ' .. attempts)
  redis.call('HSET', schedule_key(schedule_ref), unpack(changed))
end
