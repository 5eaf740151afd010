-- waiting: under which names of queues and lanes tasks wait. A leader that knows all of them has the script look only
-- for those that it comes to.
-- needs: arg known
-- includes: served, ready

local ASKED_AT_ONCE = 1000 -- names of one command
local left, waits = {}, {} -- by name: tasks that may be taken still, and whether some wait
local looked = {} -- names that were looked for

-- note_waiting notes that a name is in the backlog. Returns whether somebody serves it.
local function note_waiting(name)
  if not is_served(name) then
    return false
  end
  waits[name] = (left[name] or not is_broken(name)) and true or nil -- with a quota, it is read anyway
  return true
end

-- look_for looks for names in the backlog, unless all were read.
local function look_for(names)
  for from = 1, known and #names or 0, ASKED_AT_ONCE do
    local last = math.min(from + ASKED_AT_ONCE - 1, #names)
    local listed = redis.call('SMISMEMBER', backlog_key, unpack(names, from, last))
    for i, is_listed in ipairs(listed) do
      if is_listed == 1 then
        note_waiting(names[from + i - 1])
      end
    end
  end
end

-- add_name adds a name to a list unless it was looked for.
local function add_name(list, name)
  if not looked[name] then
    looked[name] = true
    list[#list + 1] = name
  end
end
