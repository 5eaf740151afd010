-- term: the key that exists while somebody holds a lease. It is named after the lease and the holder's fence, so that renewing it
-- needs no comparison.
-- needs: key lease
-- includes: nothing

-- term_of returns the key for a fence.
local function term_of(holder)
  return lease .. ':' .. holder
end
