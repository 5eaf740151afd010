-- list_ended: lists tasks that have ended.
-- includes: clock, number, changes

local last_beginning, last_state, last_index -- of the last task: its namespace with a colon, its state and their list
local last_retention, kept_until -- of the last task: its retention in ms, and when it is forgotten, as text

-- index_of returns the key of the list of the tasks of a namespace that ended in a state. Neighbours mostly share it.
local function index_of(member, state)
  if state ~= last_state or string.sub(member, 1, #last_beginning) ~= last_beginning then
    last_beginning, last_state = string.match(member, '^[^:]+:'), state
    last_index = index_key(string.sub(last_beginning, 1, -2), state)
  end
  return last_index
end

-- list_ended lists a task that ended in a state at that time (ms, text), until it is forgotten.
local function list_ended(member, state, at, retention)
  if retention ~= last_retention then
    last_retention, kept_until = retention, int(now + retention)
  end
  put_later(index_of(member, state), at, member, true)
  put_later(expiry_key, kept_until, member)
end
