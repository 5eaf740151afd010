-- let_go: lets tasks go that wait for the end of another one with their key.
-- needs: arg events, arg wake
-- includes: clock, number, definition, events, wheel, noted, once, standing, starting

-- let_go makes the task of a key due that waits for the end of another one, if that has ended.
local function let_go(key)
  local known = read_key(key)
  if not known.behind or standing_of(key, known.front) then
    return
  end
  local member = key .. '@k' .. known.behind
  if standing_of(key, known.behind) == 'wait' then
    local record = redis.call('HGET', defs_key, member)
    announce('updated', member, 'scheduled', '0', '', record, ',"due":' .. int(now))
    put_on_wheel(member, now)
    note_start_by(member, record, now)
    note_row(member)
  end
  known.front, known.behind, known.first = known.behind, nil, 0
  write_key(key, known)
end
