-- run_guards: what plans of runs of workflows were made from.
-- includes: nothing

-- Each guard returns whether something is as the leader has read it.
local guards = {
  run = function(name, digest)
    local text = redis.call('HGET', runs_key, name)
    return (text and redis.sha1hex(text) or '') == digest
  end,
  asked = function(_, asks, run)
    return (redis.call('HGET', asks_key, run) or '') == asks
  end,
  saw = function(name, text)
    return (redis.call('HGET', states_key, name) or '') == text
  end,
}
