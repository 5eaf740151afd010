-- ask_run: asks for something of a run of a workflow that runs. Its leader plans it anew. One that waits for its begin
-- can be planned anew as well, with nothing asked of it. What is asked early is done when the run begins.
-- includes: refuse, number, state, asks
-- keys:
--   states  HASH  the script makes further keys of the same partition
-- args:
--   member  member
--   ask     text    a line without its line break, as Ask of internal/workflow writes it; "" for none
--   early   flag    also of a run that has not begun
--   wake    channel
-- reply: nothing
-- refuses:
--   NOT_FOUND  no such run
--   STATE      the run does not run; the detail is its state
--   FULL       as much is asked of the run already as may be, and its leader has not done it yet
-- repeat: harmless: the same line is noted once
-- full: refused
local ASKS_LIMIT = 256 * 1024 -- bytes

local text = redis.call('HGET', states, member)
if redis.call('HEXISTS', defs_key, member) == 0 then
  return refuse('NOT_FOUND', member)
end
local fields = parse_state(text or 'scheduled 0')
local runs = fields.state == 'running' and fields.run == FLOW_RUN
local waits = fields.state == 'queued' and (ask == '' or early) or fields.state == 'scheduled' and early
if not runs and not waits then
  return refuse('STATE', fields.state)
end
if redis.call('HSTRLEN', asks_key, member) + #ask > ASKS_LIMIT then
  return refuse('FULL', int(ASKS_LIMIT))
end
ask_run(member, ask)
return {}
