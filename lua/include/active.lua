-- active: the deliveries that workers have.
-- needs: key active

-- let_go takes a delivery off the list of those that workers have. It returns whether a worker had it, also if somebody has deleted the list.
local function let_go(id)
  return redis.call('LREM', active, -1, id) > 0 or redis.call('HGET', delivery_key(id), 'state') == 'active'
end
