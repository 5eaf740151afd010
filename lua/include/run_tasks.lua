-- run_tasks: what is written of a run of a workflow, and of the tasks of its steps.
-- needs: key defs, arg events, arg control, arg wake
-- includes: clock, number, state, definition, events, ending, attempts, stop, step, release

-- write_mark is keep_step for the task of a step that may not have ended, or may be gone: then it changes nothing.
local function write_mark(member, mark, at)
  local text = redis.call('HGET', states_key, member)
  if text and end_of(text) then
    keep_step(member, text, mark, at)
  end
end

-- begin_own has the task of a run begin. It has no lease: the leader looks after it.
local function begin_own(run)
  local text = redis.call('HGET', states_key, run)
  redis.call('HSET', states_key, run, begun_state(text, int(now), FLOW_RUN))
  redis.call('ZREM', queued_key, run)
  redis.call('ZADD', running_key, int(now), run)
  redis.call('HDEL', results_key, run)
  redis.call('HDEL', errors_key, run)
  announce('running', run, 'running', queued_attempt(text), '', redis.call('HGET', defs, run), '')
end

-- end_own ends the task of a run, if it runs.
local function end_own(run, state, reason, kept_until)
  local record, text = redis.call('HGET', defs, run), redis.call('HGET', states_key, run)
  if record and text and read_running(text) then
    end_attempt(run, record, parse_state(text), state, state, reason, 0, kept_until - now)
  end
end

-- free_late frees the task of a step that has ended after its run: it is kept as long as the run is, if that is there.
local function free_late(member, _, _, _, run)
  local text = redis.call('HGET', states_key, member)
  local state = text and is_marked(text) and end_of(text)
  if state then
    local kept = now + (state == 'failed' and FAILED_RETENTION or DEFAULT_RETENTION)
    keep_step(member, text, '', tonumber(redis.call('ZSCORE', expiry_key, run)) or kept)
  end
end

-- Each write takes name, a, b and at of its op, and the run.
local writes = {
  run = function(name, _, text) return text ~= '' and redis.call('HSET', runs_key, name, text) end,
  asked = function(_, asks, _, _, run) return asks ~= '' and redis.call('HDEL', asks_key, run) end,
  saw = function() end,
  begin = function(_, _, _, _, run) begin_own(run) end,
  pin = function(_, plan, _, _, run) redis.call('HSET', plans_key, run, plan) end,
  took = function(entry) redis.call('ZREM', outbox_key, entry) end,
  look = function(_, _, _, at, run) redis.call('ZADD', outbox_key, int(at), 'plan ' .. run) end,
  release = release,
  again = release_again,
  stop = function(name) stop_task(name, '') end,
  tie = function(name) write_mark(name, '>', now + STEP_RETENTION) end,
  free = function(name, _, _, at) write_mark(name, '', at) end,
  late = free_late,
  ['end'] = function(_, state, reason, at, run) end_own(run, state, reason, at) end,
  result = function(_, result, _, _, run) redis.call('HSET', results_key, run, result) end,
}
