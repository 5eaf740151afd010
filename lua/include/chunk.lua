-- chunk: packs the records of ticks that fired on time, one after the other and by one revision, into one text.
-- The text is "fired <revision> <count> <last> <step> <ticks>": how many ticks there are, the time of the last one, and how
-- many ms it comes after the one before. The ticks are separated by commas: each is its lateness in ms, with the ms since
-- the tick before it and a colon in front if that is another interval than before. The second tick always has them, the
-- first never. The text does not have the time of the first tick.
-- includes: number

local CHUNK = '^fired (%d+) (%d+) (%d+) (%d+) (.+)$'
local CHUNK_LIMIT = 32 -- ticks

-- new_chunk returns the chunk of one tick.
local function new_chunk(revision, tick, late)
  return 'fired ' .. revision .. ' 1 ' .. int(tick) .. ' 0 ' .. late
end

-- extend_chunk appends a tick to the chunk that has the other fields.
local function extend_chunk(revision, count, last, step, ticks, tick, late)
  local delta, interval = tick - last, ','
  if tonumber(step) ~= delta then
    step = int(delta)
    interval = ',' .. step .. ':'
  end
  return 'fired ' .. revision .. ' ' .. count + 1 .. ' ' .. int(tick) .. ' ' .. step .. ' ' .. ticks .. interval .. late
end

-- pack_ticks returns the chunk of a list of ticks; each is a table of its time, tick, and late, both in ms.
local function pack_ticks(revision, list)
  local chunk = new_chunk(revision, list[1].tick, list[1].late)
  for i = 2, #list do
    local _, count, last, step, ticks = string.match(chunk, CHUNK)
    chunk = extend_chunk(revision, count, last, step, ticks, list[i].tick, list[i].late)
  end
  return chunk
end

local unpacked = {} -- lists by chunk: a script often asks for one tick after the other

-- unpack_ticks returns the list of a chunk's ticks, not to be changed; first is the time of the first one.
local function unpack_ticks(chunk, first)
  local list, tick, step = unpacked[chunk], tonumber(first), 0
  if list then
    return list
  end
  list = {}
  for number, colon, late in string.gmatch(string.match(chunk, '%S+$'), '(%d+)(:?)(%d*)') do
    if colon == ':' then
      step = tonumber(number)
    else
      late = number
    end
    tick = tick + step
    list[#list + 1] = { tick = tick, late = tonumber(late) }
  end
  unpacked[chunk] = list
  return list
end

-- cut_chunk returns a chunk of two ticks or more without its first one, and how many ms later it begins.
local function cut_chunk(chunk)
  local revision, count, last, step, ticks = string.match(chunk, CHUNK)
  local delta, late, rest = string.match(ticks, '^%d+,(%d+):(%d+)(.*)$')
  if rest == '' then
    step = '0'
  elseif not string.find(rest, '^,%d+:') then
    rest = ',' .. delta .. ':' .. string.sub(rest, 2)
  end
  return 'fired ' .. revision .. ' ' .. count - 1 .. ' ' .. last .. ' ' .. step .. ' ' .. late .. rest, tonumber(delta)
end
