-- may_run: whether something of a schedule may run that has lost its definition, or is put aside.
-- includes: damage, over

-- may_run returns whether a live task of a schedule may not be over: a schedule that is put under this id must not
-- start beside it. What cannot be read may run.
local function may_run(member)
  local readable, name = pcall(first_live, member, -1)
  if not readable and not is_damage(name) then
    error(name, 0)
  end
  return not readable or name ~= nil
end
