-- limits: which limits a task has, as the leader says. A rule is the name of a limit; "*" at its end stands for any
-- further characters. Each is between line breaks. The limits of a task go from narrow to wide, with commas between. If
-- its cost is more than 1, that comes before them: "5,key:a,all".
-- needs: arg rules
-- includes: holder

local lists = { [false] = {} } -- limits by the text that has them
local exact_rules, open_rules = nil, {} -- by name; and by kind, the beginnings of those that end with "*"

-- read_rules reads the whole text.
local function read_rules()
  exact_rules = {}
  for name in string.gmatch(rules, '[^\n]+') do
    local kind, beginning = string.match(name, '^(%a+:)(.*)%*$')
    if kind then
      open_rules[kind] = open_rules[kind] or {}
      table.insert(open_rules[kind], beginning)
    else
      exact_rules[name] = true
    end
  end
end

-- add_limit adds the limit of that kind and name, if there is a rule for it.
local function add_limit(list, kind, name)
  local limited = exact_rules[kind .. name]
  for _, beginning in ipairs(not limited and open_rules[kind] or {}) do
    limited = limited or string.sub(name, 1, #beginning) == beginning
  end
  if limited then
    list[#list + 1] = kind .. name
  end
end

-- limits_of returns the limits of a task; nil for none. keys are its limit keys, with commas between, and cost is its
-- cost; nil for none. A run of a workflow has none, as it would hold what its steps wait for.
local function limits_of(member, task_type, queue, keys, cost)
  if task_type == 'workflow' then
    return nil
  elseif not exact_rules then
    read_rules()
  end
  local list = {}
  for key in string.gmatch(keys or '', '[^,]+') do
    add_limit(list, 'key:', key)
  end
  table.sort(list)
  add_limit(list, 'type:', task_type)
  add_limit(list, 'queue:', queue)
  add_limit(list, 'namespace:', string.match(member, '^[^:]*'))
  if exact_rules['all'] then
    list[#list + 1] = 'all'
  end
  return #list > 0 and (cost and cost .. ',' or '') .. table.concat(list, ',') or nil
end

-- list_of returns the limits in a text, false or nil for none, and the cost of its tasks.
local function list_of(limits)
  local list = lists[limits or false]
  if not list then
    list = { cost = cost_in(limits) }
    for limit in string.gmatch(limits, LIMIT) do
      list[#list + 1] = limit
    end
    lists[limits] = list
  end
  return list
end
