-- starting: puts the times by which tasks must begin into the outbox, where the leader finds them.
-- needs: arg wake
-- includes: number, start_by, wakes

-- note_start_by puts the time by which a task must begin into the outbox, if it has one, and wakes the leader if it is
-- the first there. due is in ms.
local function note_start_by(member, record, due)
  local by = start_by_of(record)
  if by then
    local entry = 'late ' .. member
    redis.call('ZADD', outbox_key, int(due + by), entry)
    if redis.call('ZRANGE', outbox_key, 0, 0)[1] == entry then
      wake_leader('follow')
    end
  end
end
