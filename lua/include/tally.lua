-- tally: counts the ticks that get no task. member is the schedule's "namespace:id".
-- needs: arg member
-- includes: number, days
-- finally: write_tally()

local tallied, newest_missed = {}, nil

-- tally counts n further ticks like the one of that name (ms) and outcome. Outcomes that are not final do not count.
local function tally(name, tick, outcome, n)
  local date, letter = string.match(name, '^%d%d%d%d%d%d%d%d'), DAY_LETTERS[outcome]
  if not date or not letter then
    return
  end
  local counts = tallied[date] or {}
  tallied[date] = counts
  counts[letter] = (counts[letter] or 0) + n
  if outcome == 'missed' and n > 0 then
    newest_missed = math.max(newest_missed or 0, tick)
  end
end

-- write_tally writes the counts of a run of the script at once. Most runs count nothing.
local function write_tally()
  if not next(tallied) then
    return
  end
  local day, missed, tracked = unpack(redis.call('HMGET', schedule_key(member), 'day', 'missed', 'tracked'))
  local changed = add_to_days(member, day, tallied)
  if not tracked then
    changed[#changed + 1], changed[#changed + 2] = 'tracked', int(now)
  end
  if newest_missed and newest_missed > (tonumber(missed or '') or 0) then
    changed[#changed + 1], changed[#changed + 2] = 'missed', int(newest_missed)
  end
  redis.call('HSET', schedule_key(member), unpack(changed))
end
