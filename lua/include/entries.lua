-- entries: in which sorted sets tasks belong, and with which scores.
-- needs: arg lease
-- includes: clock, number, definition, listings

-- first_due returns when a scheduled task is due, as far as its state or its definition says so.
local function first_due(record, fields)
  local head = head_of(record)
  return fields.due or string.match(head, '"at":(%d+)') or
    tonumber(string.sub(record, 1, 13)) + (string.match(head, '"delay":(%d+)') or 0)
end

-- kept_until returns when a task that has ended is forgotten.
local function kept_until(record, fields)
  local default = fields.state == 'failed' and FAILED_RETENTION or DEFAULT_RETENTION
  return fields.finished + (string.match(head_of(record), '"retention":(%d+)') or default)
end

-- FAR is longer than a leader leaves a queued task alone and than a lease lasts, by a minute by which the clock of Redis may have been set
-- back without anybody having noticed yet.
local FAR = WORKER_LEASE_LIMIT + 60000

-- is_exact returns whether the state or the definition of a scheduled task says when it is due. Of a task that was changed (with a delay, which
-- counts from then) and of the first attempt of a tick (due after a jitter, or a pace), only the entry says that.
local function is_exact(member, fields)
  return (fields.due or not string.find(member, '@', 1, true)) and redis.call('HEXISTS', originals_key, member) == 0
end

-- due_range returns the least and the greatest score of a scheduled task that is due at that time (ms). What is due may
-- have any score that says so.
local function due_range(member, fields, due)
  if not is_exact(member, fields) then
    return -math.huge, now + HORIZON_LIMIT
  end
  return due > now and due - 1000 or -math.huge, math.max(due, now) + 1000
end

-- listings_for returns what a task must have in the sets in which it must be listed, by their keys: score is the right one, and least and
-- most are the bounds of one that can be right. listed is what listings_of returned.
local function listings_for(member, record, fields, listed)
  if fields.state == 'scheduled' then
    local due = tonumber(first_due(record, fields))
    local least, most = due_range(member, fields, due)
    local wanted = { score = due, least = least, most = most }
    for _, set in ipairs(waiting_sets(member, record)) do
      if listed[set] then
        return { [set] = wanted }
      end
    end
    return { [wheel_key] = wanted }
  elseif fields.state == 'queued' then
    return { [queued_key] = { score = now, most = now + FAR } }
  elseif fields.state == 'running' and fields.run == FLOW_RUN then -- its leader needs no lease
    return { [running_key] = { score = fields.started or now } }
  elseif fields.state == 'running' then
    return { [running_key] = { score = fields.started or now }, [held_key] = { score = now + lease, most = now + FAR } }
  end
  return {
    [index_key(string.match(member, '^[^:]*'), fields.state)] = { score = fields.finished },
    [expiry_key] = { score = kept_until(record, fields) },
  }
end

-- whats_wrong returns what is wrong with the entry of a task in a set, which has that score, nil if there is none; nil if nothing is.
local function whats_wrong(set, score, wanted)
  if not score then
    return 'not in ' .. set
  elseif tonumber(score) < (wanted.least or -math.huge) or tonumber(score) > (wanted.most or math.huge) then
    return 'in ' .. set .. ' at ' .. int(score) .. ' instead of ' .. int(wanted.score)
  end
end
