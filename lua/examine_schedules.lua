-- examine_schedules: finds what of schedules does not fit together, each schedule in one moment, and repairs it if it
-- is asked to: leaders look at the schedules whose ticks they have to plan, nothing is left of schedules that do not
-- exist, and none has lost its definition.
-- includes: clock, number, fields, findings, look, lost, schedule_aside
-- keys:
--   schedules  ZSET  the script makes further keys of the same partition
-- args:
--   checks   text  those that are wanted, each between blanks
--   repair   flag
--   from     text  where the members were found: schedules, ticks, or keys. What is in an earlier one of these is left
--     out: another call examines it
--   wake     channel
--   members  (member text, revision text, cursor text, broken text, was text, upcoming time)*  of that revision and
--     cursor: why it cannot be read, "" if it can; and the first tick after the cursor, none if there is none.
--     revision: "" if the caller does not know these. was: of one that cannot be read, the values of READ, each with
--     a line break behind it
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused
local POSTPONED = 120000 -- ms: leaders postpone a schedule for half of that at most

local READ = { 'revision', 'cursor', 'from', 'created', 'ended', 'def', 'task', 'runs', 'paused' } -- fields

-- is_unchanged returns whether a schedule still has those values.
local function is_unchanged(member, was)
  local values = {}
  for i, value in ipairs(redis.call('HMGET', schedule_key(member), unpack(READ))) do
    values[i] = (value or '') .. '\n'
  end
  return table.concat(values) == was
end

-- missed returns why the leader does not look at a schedule though it has to; nil if it does.
local function missed(member, fields, at)
  if not fields.ended and not at then
    return 'is active, and not in ' .. ticks_key
  end
  local waits = redis.call('LLEN', waiting_key(member)) > 0 and redis.call('ZCARD', live_key(member)) == 0
  if waits and (not at or tonumber(at) > now) then
    return 'has a tick that waits, and no live task for which it would have to, ' ..
      'but its leader is not about to look at it'
  end
end

-- too_late returns why the leader looks at a schedule only after its next tick; nil if it looks before. It may look too
-- early, and does so when the schedule was put or resumed.
local function too_late(fields, at, upcoming)
  local resumed = string.match(fields.rest or '', '%d+$')
  local latest = math.max(upcoming or 0, now + POSTPONED, tonumber(fields.from) or 0, tonumber(resumed) or 0)
  if at and not fields.ended and tonumber(at) > latest then
    local next_tick = upcoming and 'is at ' .. int(upcoming) or 'does not exist'
    return 'is in ' .. ticks_key .. ' at ' .. int(at) .. ', and its next tick ' .. next_tick
  end
end

-- is_known returns whether another call examines a member, as it was found elsewhere, too.
local function is_known(member)
  return from ~= 'schedules' and redis.call('ZSCORE', schedules, member) or
    from == 'keys' and redis.call('ZSCORE', ticks_key, member)
end

-- examine finds what does not fit together of a schedule that can be read. same: upcoming holds.
local function examine(member, fields, same, upcoming)
  local at = redis.call('ZSCORE', ticks_key, member)
  if not redis.call('ZSCORE', schedules, member) and report(member, 'schedule-drift', 'is not in ' .. schedules) then
    redis.call('ZADD', schedules, 0, member)
  end
  if fields.paused and at and report(member, 'schedule-drift', 'is paused, and in ' .. ticks_key) then
    redis.call('ZREM', ticks_key, member)
  end
  local why = not fields.paused and (missed(member, fields, at) or same and too_late(fields, at, upcoming))
  if why and report(member, 'schedule-not-looked-at', why) then
    look_at(member, now)
  end
end

for member, revision, cursor, broken, was, upcoming in members() do
  local fields = read_fields(schedule_key(member), { 'revision', 'cursor', 'from', 'paused', 'rest', 'ended' })
  local same = (fields.revision or '') == revision and (fields.cursor or '') == cursor
  local why = fields.revision and broken or 'it has no revision'
  if not is_known(member) then
    if not fields.revision and redis.call('EXISTS', schedule_key(member)) == 0 then
      find_lost(member)
    elseif why == '' then
      examine(member, fields, same, upcoming)
    elseif not fields.revision or is_unchanged(member, was) then
      if report(member, 'schedule-unreadable', 'cannot be read: ' .. why) then
        put_aside(member)
      else
        pass_over(member, 'cannot be read: ' .. why, NEED_DEFINITION)
      end
    end
  end
end
return { found }
