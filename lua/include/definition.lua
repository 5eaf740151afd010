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
  return is_apart(record) and redis.call('HGET', payloads_key, member) or ''
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

-- read_type_and_queue reads the beginning of a head, which begins at a place of a text: the type, and then the queue
-- if it is not the default. It returns the type, nil if either cannot be read; the queue; and the place behind both. A
-- task whose queue is no name counts for the default: nobody can read it, and it ends after its claim.
local function read_type_and_queue(text, from)
  local task_type, at = string.match(text, '^{"type":"([^"]*)"()', from)
  if not task_type then
    return nil, DEFAULT_QUEUE, from
  end
  local queue, behind = string.match(text, '^,"queue":"([^"]*)"()', at)
  if not queue and string.sub(text, at, at + 7) == ',"queue"' then -- which is no text
    return nil, DEFAULT_QUEUE, from
  end
  return task_type, queue and string.match(queue, '^[%w._@-]+$') or DEFAULT_QUEUE, behind or at
end

-- queue_of returns the name of a task's queue, from its definition with or without the time of its creation.
local function queue_of(def)
  local _, queue = read_type_and_queue(def, string.match(def, '^%d*()'))
  return queue
end

-- type_of returns the type of a task, '' if it cannot be read.
local function type_of(record)
  return read_type_and_queue(record, 14) or ''
end

-- head_of returns the first line of a definition, which has everything but the payload; '' if there is none, as somebody has
-- written to Redis by hand.
local function head_of(record)
  local line = record and string.find(record, '\n', 14, true)
  return line and string.sub(record, 14, line - 1) or ''
end

