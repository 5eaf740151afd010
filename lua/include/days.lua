-- days: counts by day of what became of the ticks of a schedule, in two fields of its hash. day is the newest day,
-- days are those before it, the oldest first, between blanks. A day is its date in UTC, then a letter and a number
-- for each outcome: 20260102s23f1.
-- includes: number

local DAY_LETTERS = {
  succeeded = 's', failed = 'f', cancelled = 'c', missed = 'm', skipped_overlap = 'o', excluded = 'x', replaced = 'r',
}

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
-- days. What is no day is dropped.
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
  return { 'day', list[#list], 'days', table.concat(list, ' ', math.max(1, #list - DAYS_LIMIT + 1), #list - 1) }
end
