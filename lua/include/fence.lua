-- fence: whether the caller leads the partition.
-- needs: key lease, arg fence
-- includes: term

-- other_leader returns nil if the caller's fence is the newest and its lease lasts; else the newest fence, or 'no leader'.
local function other_leader()
  local newest = redis.call('GET', lease)
  if newest ~= fence then
    return newest or 'no leader'
  end
  if redis.call('EXISTS', term_of(fence)) == 0 then
    return 'no leader'
  end
end
