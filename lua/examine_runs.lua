-- examine_runs: finds what does not fit together of runs of workflows that run, each in one moment, and repairs it if
-- it is asked to: a leader plans each of them before long, and knows which of its steps have ended.
-- includes: clock, number, state, findings, asks
-- keys:
--   runs  HASH  the script makes further keys of the same partition
-- args:
--   checks  text  those that are wanted, each between blanks
--   repair  flag
--   alone   ms    for how long a leader leaves a run alone at most
--   wake    channel
--   items   (run text, digest text, anew text, step text, state text)*  digest: the SHA-1 of the text of the run as the
--     caller has read it, "" for none; a run that has another one by now is left out. For the run itself, step is "",
--     and anew the text that takes the place of one that is lost or cannot be read, "" if it is whole. Else step is
--     the task of a step, and state that of the step by the text
-- reply:
--   found  (member text, check text, words text)*
-- refuses: nothing
-- repeat: harmless: what was repaired is not found again
-- full: refused

-- runs_so returns whether a run runs, and has that text.
local function runs_so(run, digest)
  local text = redis.call('HGET', runs, run)
  local fields = parse_state(redis.call('HGET', states_key, run) or 'scheduled 0')
  return fields.state == 'running' and fields.run == FLOW_RUN and (text and redis.sha1hex(text) or '') == digest
end

-- write_anew replaces the text of a run. What nobody can read is kept for a while.
local function write_anew(run, anew)
  local text = redis.call('HGET', runs, run)
  if text then
    local kept = aside_key(int(now) .. ':runs')
    redis.call('HSET', kept, run, text)
    redis.call('PEXPIRE', kept, ASIDE_KEPT)
  end
  redis.call('HSET', runs, run, anew)
  ask_run(run, '')
end

-- examine_run finds that a run has no text, or that its leader is not about to plan it.
local function examine_run(run, digest, anew)
  local words = digest == '' and 'runs, and has lost what became of its steps' or
    'runs, and what became of its steps cannot be read'
  if anew ~= '' and report(run, 'run-lost', words) then
    write_anew(run, anew)
  end
  local at = tonumber(redis.call('ZSCORE', outbox_key, 'plan ' .. run))
  local where = not at and 'not in ' .. outbox_key or at > now + alone and 'in ' .. outbox_key .. ' at ' .. int(at)
  if where and report(run, 'run-not-looked-at', 'runs, and is ' .. where) then
    ask_run(run, '')
  end
end

-- is_told returns whether the leader of a run is about to plan it, or to see the end of a step with those fields; nil:
-- the step is gone.
local function is_told(run, step, fields)
  local at = tonumber(redis.call('ZSCORE', outbox_key, 'plan ' .. run))
  return at and at <= now or
    fields and redis.call('ZSCORE', outbox_key, 'end ' .. step .. ' ' .. fields.attempt .. ' ' .. fields.state)
end

-- examine_step finds that the task of a step is not in the state in which its run has the step.
local function examine_step(run, step, state)
  local text = redis.call('HGET', states_key, step)
  local fields = redis.call('HEXISTS', defs_key, step) == 1 and parse_state(text or 'scheduled 0') or nil
  local lives = fields and not fields.finished
  if state == 'active' and not lives and not is_told(run, step, fields) then
    local words = (fields and 'is ' .. fields.state or 'is gone') .. ', and its run waits for its end'
    if report(step, 'run-behind', words) then
      ask_run(run, '')
    end
  elseif state ~= 'active' and lives and not is_told(run, step, fields) then
    report(step, 'run-ahead', 'is ' .. fields.state .. ', and its run has the step as ' .. state)
  end
end

local same = {} -- by run: whether it is as the caller has read it
for run, digest, anew, step, state in items() do
  if same[run] == nil then
    same[run] = runs_so(run, digest)
  end
  if same[run] then
    if step == '' then
      examine_run(run, digest, anew)
    else
      examine_step(run, step, state)
    end
  end
end
return { found }
