-- begun: lets runs begin.
-- includes: state, changes

-- begin_run has a run of a queued task begin at that time (ms, text), leased until upto. text is the state of the task. Returns its
-- new state.
local function begin_run(member, text, attempt, run, at, upto)
  text = begun_state(text, at, run)
  set_later(states_key, member, text)
  remove_later(queued_key, member)
  put_later(running_key, at, member)
  put_later(held_key, upto, member)
  if attempt ~= '1' then
    delete_later(errors_key, member)
    delete_later(results_key, member)
  end
  return text
end
