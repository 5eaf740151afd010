-- definition: the stored form of the definitions of tasks: the time of the creation (13 digits), the head, a line break, and
-- the payload or, if it is long, "@" and its SHA-1.
-- includes: nothing

-- split_payload returns a definition as it is stored, without the time, and its payload if that is stored apart, else nil.
local function split_payload(def)
  local line = string.find(def, '\n', 1, true)
  if #def - line <= INLINE_PAYLOAD_LIMIT then
    return def
  end
  local payload = string.sub(def, line + 1)
  return string.sub(def, 1, line) .. '@' .. redis.sha1hex(payload), payload
end

-- without_trace returns a definition, without the time of its creation, without the trace that its head may end with. What
-- is left is the canonical form.
local function without_trace(def)
  local line = string.find(def, '\n', 1, true)
  local head = string.match(string.sub(def, 1, line - 1), '^(.*),"trace [%x-]+":0}$')
  return head and head .. '}' .. string.sub(def, line) or def
end

-- is_apart returns whether the payload of a task with that record is stored apart.
local function is_apart(record)
  return string.find(record, '\n@', 14, true)
end

-- stored_payload returns the payload of a task with that record if it is stored apart, else ''.
local function stored_payload(member, record)
  return is_apart(record) and redis.call('HGET', payloads_key(), member) or ''
end

-- without_payload returns a stored definition without its payload.
local function without_payload(record)
  return string.sub(record, 1, string.find(record, '\n', 14, true))
end

-- payload_part returns what a stored definition has behind the head: the payload, or "@" and its SHA-1.
local function payload_part(record)
  return string.sub(record, string.find(record, '\n', 14, true) or #record + 1)
end

-- def_of returns a definition without the time of its creation.
local function def_of(record)
  return string.sub(record, 14)
end

-- queue_of returns the name of a task's queue, from its definition with or without the time of its creation. The head begins with the type, and
-- then the queue if it is not the default. A task whose queue is no name counts for the default: nobody can read it, and
-- it ends after its claim.
local function queue_of(record)
  return string.match(record, '^%d*{"type":"[^"]*","queue":"([%w._-]+)"') or DEFAULT_QUEUE
end

-- type_of returns the type of a task.
local function type_of(record)
  return string.match(record, '^%d+{"type":"([^"]*)"') or ''
end

-- lane_of returns the name of a task's lane: where it waits instead of with the others of its queue, while these may be handed over and
-- those of its type may not. Neither a queue's name nor a type has a blank.
local function lane_of(record)
  return queue_of(record) .. ' ' .. type_of(record)
end

-- head_of returns the first line of a definition, which has everything but the payload; '' if there is none, as somebody has
-- written to Redis by hand.
local function head_of(record)
  local line = record and string.find(record, '\n', 14, true)
  return line and string.sub(record, 14, line - 1) or ''
end

