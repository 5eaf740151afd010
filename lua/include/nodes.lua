-- nodes: to which nodes tasks go that say where they may run. The leader has chosen as many for each of their lanes as
-- the quota says. A line of nodes has the name of a lane, a tab, and nodes with blanks between.
-- needs: arg nodes
-- includes: moved

local nodes_by_name = {}
local placed = {} -- the tasks that go to one node, and of each the node, and its reach if it was given up

for name, list in string.gmatch(nodes, '([^\t\n]+)\t([^\n]+)\n') do
  local ids = {}
  for id in string.gmatch(list, '%S+') do
    ids[#ids + 1] = id
  end
  nodes_by_name[name] = { ids = ids, next = 1 }
end

-- has_node returns whether there is a node for a further task of a lane.
local function has_node(name)
  local of = nodes_by_name[name]
  return of and of.ids[of.next]
end

-- next_node returns the node to which a task goes, the next one of its lane; false for any.
local function next_node(name, member)
  local node = has_node(name)
  if node then
    nodes_by_name[name].next = nodes_by_name[name].next + 1
    placed[#placed + 1], placed[#placed + 2], placed[#placed + 3] = member, node, away.reach_in(name) or ''
  end
  return node or false
end
