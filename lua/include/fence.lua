-- fence: whether the caller leads the partition.
-- needs: key lease, arg fence
-- includes: nothing

-- other_leader returns nil if the lease has the caller's fence; else the value of the lease, or 'no leader'.
local function other_leader()
  local held = redis.call('GET', lease)
  if held ~= fence then
    return held or 'no leader'
  end
end

