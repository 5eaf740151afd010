-- once: what becomes of submissions with the same key. Of a key, two tasks are known: the front, its newest one,
-- and the one behind, which waits for the end of the front. A record is `<front> <behind> <first> <upcoming>
-- <seen>`: the names of these within their key; when the first submission came that the front has been; when a
-- throttle lets the next task be due; and which submissions have replaced a task lately, by the begins of the
-- SHA-1 of their names. "@" and 0 stand for none.
-- includes: number

local SEEN = 8 -- submissions that have replaced a task, of a key

-- split_key returns the key of a task, with its namespace, and its name within that; nil if it has no key.
local function split_key(member)
  return string.match(member, '^([^@]+)@k([^@]+)$')
end

-- read_key returns what is known of a key.
local function read_key(key)
  local record = redis.call('HGET', once_key, key) or ''
  local front, behind, first, upcoming, seen = string.match(record, '^(%S+) (%S+) (%d+) (%d+) (%S+)$')
  return {
    front = front ~= '@' and front or nil, behind = behind ~= '@' and behind or nil, first = tonumber(first or 0),
    upcoming = tonumber(upcoming or 0), seen = seen ~= '@' and seen or '',
  }
end

-- write_key writes what is known of a key, and removes it if that is nothing.
local function write_key(key, known)
  if not known.front and not known.behind then
    redis.call('HDEL', once_key, key)
    return
  end
  redis.call('HSET', once_key, key, table.concat({
    known.front or '@', known.behind or '@', int(known.first), int(known.upcoming),
    known.seen ~= '' and known.seen or '@',
  }, ' '))
end

-- note_seen notes that a submission of that name has replaced a task.
local function note_seen(known, name)
  local all = { string.sub(redis.sha1hex(name), 1, 12) }
  for digest in string.gmatch(known.seen, '[^,]+') do
    all[#all + 1] = #all < SEEN and digest or nil
  end
  known.seen = table.concat(all, ',')
end

-- was_seen returns whether a submission of that name has replaced a task lately.
local function was_seen(known, name)
  return string.find(known.seen, string.sub(redis.sha1hex(name), 1, 12), 1, true) ~= nil
end
