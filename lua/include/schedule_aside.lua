-- schedule_aside: keeps schedules that cannot be read, for a while, where nobody looks for them.
-- needs: key schedules
-- includes: clock, number, lost, revival, may_run

-- rename_aside keeps a key of a schedule for a while where nobody looks for it, if there is such a key.
local function rename_aside(member, kind, key)
  if redis.call('EXISTS', key) == 1 then
    local kept = aside_key(int(now) .. ':' .. kind .. ':' .. member)
    redis.call('RENAME', key, kept)
    redis.call('PEXPIRE', kept, ASIDE_KEPT)
  end
end

-- put_aside keeps a schedule aside that cannot be read. If earlier revisions are left, the newest of these is the
-- present one from now on; else all that Redis has of the schedule is aside. The list of its live tasks stays while one
-- of these is not over: a schedule that is put under the same id does not start beside it.
local function put_aside(member)
  local newest, oldest, before = ends_of(member)
  rename_aside(member, 'schedule', schedule_key(member))
  if newest then
    revive(member, newest, oldest, before + 1)
    return
  end
  if not may_run(member) then
    rename_aside(member, 'live', live_key(member))
  end
  rename_aside(member, 'waiting', waiting_key(member))
  rename_aside(member, 'ledger', ledger_key(member))
  rename_aside(member, 'history', history_key(member))
  redis.call('ZREM', schedules, member)
  redis.call('ZREM', ticks_key, member)
end
