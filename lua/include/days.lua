-- days: counts by day of what became of the ticks of a schedule, in two fields of its hash. day is the newest day
-- that has begun, days are the others, the oldest first, between blanks. A day is its date in UTC, then a letter and a
-- number for each outcome: 20260102s23f1.
-- includes: clock, number

local DAY_LETTERS = {
  succeeded = 's', failed = 'f', cancelled = 'c', missed = 'm', skipped_overlap = 'o', excluded = 'x', replaced = 'r',
}

-- is_counted returns whether what was decided or ended at a time (ms) was counted. tracked is the field of that name of
-- the schedule; nil or false if there is none, as nothing was counted then.
local function is_counted(tracked, at)
  return tonumber(at) >= (tonumber(tracked or '') or math.huge)
end

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

-- add_counts returns a day with further counts: numbers by letter. No count goes below 0.
local function add_counts(day, by_letter)
  for letter, n in pairs(by_letter) do
    local before = tonumber(string.match(day, letter .. '(%d+)') or 0)
    local after = math.max(0, before + n)
    day = string.gsub(day, letter .. '%d+', '') .. (after > 0 and letter .. int(after) or '')
  end
  return day
end

-- add_to_days returns the fields that change, and their values, when counts are added: tables of numbers by letter,
-- by date. day is the field of that name; nil if there is none. Only counts of another day than that need the field
-- days. After a jump of the clock, there may be days ahead: they are in days, so that a count of the present day needs
-- the field day only. What is no day is dropped.
local function add_to_days(schedule_ref, day, counts)
  local date = string.match(day or '', '^(%d%d%d%d%d%d%d%d)[%l%d]*$')
  local newest = date and counts[date]
  if newest and not next(counts, next(counts)) then
    return { 'day', add_counts(day, newest) }
  end
  local list, at = {}, {}
  local earlier = redis.call('HGET', schedule_key(schedule_ref), 'days') or ''
  for text in string.gmatch(earlier .. ' ' .. (day or ''), '%S+') do
    date = string.match(text, '^(%d%d%d%d%d%d%d%d)[%l%d]*$')
    if date then
      list[#list + 1] = text
      at[date] = #list
    end
  end
  for of, by_letter in pairs(counts) do
    local i = at[of] or #list + 1
    list[i] = add_counts(list[i] or of, by_letter)
  end
  table.sort(list) -- they begin with their dates
  local present = #list
  while present > 1 and tick_time(string.sub(list[present], 1, 8) .. 'T000000Z') > now do
    present = present - 1
  end
  day = table.remove(list, present)
  return { 'day', day, 'days', table.concat(list, ' ', math.max(1, #list - DAYS_LIMIT + 2)) }
end
