-- begun_attempts: what tells of a task that has lost its state how many of its attempts have begun.
-- includes: number, damage, definition

-- number_of returns the number in an entry of a history of attempts; nil if it has none that can be read.
local function number_of(entry)
  local readable, attempt = pcall(cjson.decode, entry)
  local number = readable and type(attempt) == 'table' and tonumber(attempt.number)
  return number and string.find(int(number), '^%d%d?%d?%d?%d?%d?%d?%d?%d?$') and number or nil
end

-- recorded_attempts returns the number of the newest attempt in a task's history, 0 for none. Entries that cannot be
-- read count.
local function recorded_attempts(member)
  local entries = redis.call('LRANGE', attempts_key(member), 0, -1)
  for i = #entries, 1, -1 do
    local number = number_of(entries[i])
    if number then
      return number + #entries - i
    end
  end
  return #entries
end

-- logged_attempt returns the number of the attempt that wrote the newest line of a task's log; 0 for none.
local function logged_attempt(member)
  local last = redis.call('XREVRANGE', log_key(member), '+', '-', 'COUNT', 1)[1]
  local number = last and string.match(last[1], '^(%d+)%-')
  return number and #number < 10 and tonumber(number) or 0
end

-- begun_attempts returns how many attempts of a task are in its history, and how many have begun, as far as its
-- history, its log, its result, its error or its checkpoint tell.
local function begun_attempts(member)
  local recorded, begun = 0, 0
  for _, hash in ipairs({ results_key, errors_key, checkpoints_key }) do
    begun = math.max(begun, redis.call('HEXISTS', hash, member))
  end
  if redis.call('EXISTS', attempts_key(member), log_key(member)) > 0 then
    recorded = recorded_attempts(member)
    begun = math.max(begun, recorded, try(logged_attempt, member) or 0)
  end
  return recorded, begun
end

-- runs_once returns whether a task may have one attempt only.
local function runs_once(record)
  local readable, head = pcall(cjson.decode, head_of(record))
  return readable and type(head) == 'table' and head.attempts == 1
end
