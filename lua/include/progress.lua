-- progress: writes the field progress of a running task's state. The scripts that end an attempt take their quick way only if the
-- field is a number, so one with a colon costs nobody anything who has neither a note nor a checkpoint.
-- includes: number, state

-- encode returns a text without blanks, which PathUnescape of Go reads.
local function encode(text)
  return (string.gsub(text, '[^A-Za-z0-9._-]', function(c) return string.format('%%%02X', string.byte(c)) end))
end

-- progress_field returns the field for a percentage and a note ("" for none); before is the field as it is, nil for none. The colon,
-- which tells that there may be a checkpoint, stays.
local function progress_field(before, percent, note)
  if note == '' and not string.find(before or '', ':', 1, true) then
    return int(percent)
  end
  return int(percent) .. ':' .. encode(note)
end

-- with_mark returns the field for a task of which there is a checkpoint; before is as above.
local function with_mark(before)
  before = before or '0'
  return string.find(before, ':', 1, true) and before or before .. ':'
end
