-- ask_run: asks for something of a run of a workflow that runs. Its leader plans it anew. One that waits for its begin
-- can be planned anew as well, with nothing asked of it.
-- includes: refuse, state, asks
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   member  member
--   ask     text    a line without its line break, as Ask of internal/workflow writes it; "" for none
--   wake    channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such run
--   STATE      the run does not run; the detail is its state
-- repeat: harmless: the same line is noted once
-- full: refused
local text = redis.call('HGET', states, member)
if redis.call('HEXISTS', defs_key, member) == 0 then
  return refuse('NOT_FOUND', member)
end
local fields = parse_state(text or 'scheduled 0')
if (fields.state ~= 'running' or fields.run ~= FLOW_RUN) and (fields.state ~= 'queued' or ask ~= '') then
  return refuse('STATE', fields.state)
end
ask_run(member, ask)
return {}
