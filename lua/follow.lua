-- follow: a leader creates the tasks that follow ends, lets those go that wait for an end, and removes the entries
-- of these ends from the outbox.
-- includes: clock, number, refuse, fence, changes, definition, events, wheel, noted, creation, once, let_go
-- keys:
--   lease   STRING
--   defs    HASH    the script makes further keys of the same partition
--   outbox  ZSET
-- args:
--   fence    fence   that this leader got with the lease
--   events   channel
--   wake     channel
--   items    (entry text, parent member, child text, def text, traced text, due time, later time)*
--     child: "namespace:id" of the task to create, "" for none; def: the head, a line break, and the payload;
--     traced: def with its trace, "" without one; later: keep the entry, which nobody can read, until then; none to
--     remove it
-- reply:
--   answers  text*  for each entry new; existed, as the task was created before; none; later; or gone, as another
--     leader has done it
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the entries are gone
-- full: refused
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

-- settle removes the mark of a task whose end owes nothing any more.
local function settle(entry, parent)
  local text = redis.call('HGET', states_key, parent) or ''
  local state, attempt = string.match(text, '^(%a+) (%d+) %d+>')
  if state and entry == 'end ' .. parent .. ' ' .. attempt .. ' ' .. state then
    set_later(states_key, parent, (string.gsub(text, '>', '', 1)))
  end
end

-- create_child creates a task, unless it was created before: it may have been deleted since, if Redis had lost the end
-- that it follows. Returns the answer.
local function create_child(child, def, traced, due)
  if redis.call('HEXISTS', defs, child) == 1 or redis.call('HEXISTS', remembered_key, child) == 1 or
    redis.call('ZSCORE', deleted_key, child) then
    return 'existed'
  end
  create_task(child, given_task(def, due, traced ~= '' and traced or def))
  return 'new'
end

local answers = {}
for entry, parent, child, def, traced, due, later in items() do
  local answer
  if not redis.call('ZSCORE', outbox, entry) then
    answer = 'gone'
  elseif later then
    answer = 'later'
    put_later(outbox, int(later), entry)
  else
    answer = child ~= '' and create_child(child, def, traced, math.max(due, now)) or 'none'
    remove_later(outbox, entry)
    settle(entry, parent)
    local key = split_key(parent)
    if key then
      let_go(key)
    end
  end
  answers[#answers + 1] = answer
end
return { answers }
